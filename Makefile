# Entry points for people and CI; each installs what it misses. `make help`.

JOBS ?= $(shell nproc)
MODEL ?=
ROUNDS ?= 5
THREADS ?= 2
CLANG_FORMAT ?= clang-format-19

export PATH := $(PATH):$(HOME)/.cargo/bin
export ASAN_OPTIONS ?= detect_stack_use_after_return=1
export UBSAN_OPTIONS ?= print_stacktrace=1
export TSAN_OPTIONS ?= suppressions=$(CURDIR)/tools/tsan.supp

.PHONY: help chat serve build test bench bench-peers kv-quality sanitize \
        asan tsan fuzz format
.NOTPARALLEL:

help:
	@echo "make chat      build, fetch the small default model, chat with it"
	@echo "               (MODEL=path chats with another)"
	@echo "make serve     the same model for programs (OpenAI's API) and, with a"
	@echo "               page, for people: http://127.0.0.1:8080"
	@echo "make test      build and run the test suite"
	@echo "make build     build build/release/quern"
	@echo "make bench     measure the small models and the kernels, JSON files"
	@echo "               under build/bench"
	@echo "make bench-peers  quern beside llama.cpp and mlx-lm on the same files:"
	@echo "               docs/benchmarks.md (ROUNDS=5, THREADS=2; a quiet machine)"
	@echo "make kv-quality  what each --kv scheme loses, beside llama.cpp's types:"
	@echo "               docs/kv_quality.md"
	@echo "make sanitize  unit and scripted tests, address+undefined and thread"
	@echo "make fuzz      each fuzz target for FUZZ_SECONDS (default 600)"
	@echo "make format    clang-format over src, tests and bench"

# Tests need GoogleTest, so a first build leaves them out; `make test` adds them
# to the same folder.
build:
	@tools/setup.sh build
	@test -f build/release/build.ninja || \
	  cmake --preset release -DQUERN_TESTS=OFF
	cmake --build build/release -j $(JOBS) --target quern

chat: build
	@tools/fetch_models.sh smollm2
	@build/release/quern chat $(MODEL)

serve: build
	@tools/fetch_models.sh smollm2
	@exec build/release/quern serve $(MODEL)

test:
	@tools/setup.sh test
	cmake --preset release -DQUERN_TESTS=ON
	cmake --build build/release -j $(JOBS)
	tools/fetch_models.sh smollm2 gemma3 qwen-coder minilm
	ctest --test-dir build/release --output-on-failure --no-tests=error \
	  -j $(JOBS)

bench: build
	@tools/setup.sh bench
	cmake --preset release -DQUERN_BENCH=ON
	cmake --build build/release -j $(JOBS) --target bench/all
	tools/bench.sh

bench-peers: build
	@tools/setup.sh peers
	cmake --preset release -DQUERN_BENCH=ON
	cmake --build build/release -j $(JOBS) --target quern ops_bench
	tools/build_llama.sh
	tools/bench_peers.py --rounds $(ROUNDS) --threads $(THREADS)

kv-quality: build
	@tools/setup.sh peers
	tools/build_llama.sh
	tools/kv_quality.py --threads $(THREADS)

sanitize: asan tsan

asan tsan:
	@tools/setup.sh sanitize
	cmake --preset $@
	cmake --build build/$@ -j $(JOBS)
	ctest --test-dir build/$@ --output-on-failure --no-tests=error \
	  -j $(JOBS) -L 'unit|scripted'

fuzz:
	@tools/setup.sh fuzz
	cmake --preset fuzz
	cmake --build build/fuzz -j $(JOBS) --target fuzzers
	tools/fuzz.sh

format:
	@tools/setup.sh format
	find src tests bench -name '*.h' -o -name '*.cpp' -o -name '*.inc' | \
	  xargs $(CLANG_FORMAT) -i
