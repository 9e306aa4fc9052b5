"""Stand-ins for what fetching reaches over a network, used by tests alone: repositories, a Harbor CLI, a Hugging Face client."""
