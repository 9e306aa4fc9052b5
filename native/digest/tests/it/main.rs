//! The crate as others use it.

mod content_hash;
mod ignore_rules;
mod input_rule;
mod inputs;
mod publish;
mod support;
mod verify;
