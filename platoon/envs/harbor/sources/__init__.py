"""Where tasks come from: directories, git repositories, Hugging Face, the Harbor Hub, registry files, adapters."""
