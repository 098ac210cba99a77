"""Preflight checks of GPU and LLM hosts."""
