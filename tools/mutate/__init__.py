"""Damaged outputs, many of them: what a parser or a judge must never make of one."""
