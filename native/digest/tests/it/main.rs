//! The crate as others use it.

mod content_hash;
mod ignore_rules;
mod inputs;
mod publish;
mod support;
mod verify;
