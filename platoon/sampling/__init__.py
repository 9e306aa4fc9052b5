"""From messages to tokens and back: model specs, samplers, renderers and tool-call parsers. The rollout side's tie to tinker."""
