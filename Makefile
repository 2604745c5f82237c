# What everyone types. Each target sets up what it needs, once, and says so.
SHELL := bash
.DEFAULT_GOAL := help
export HETRL_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hetrl
export UV_CACHE_DIR ?= $(HETRL_CACHE)/uv
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
