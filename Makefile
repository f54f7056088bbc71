# Short names for what CMake does. `make help` lists them.

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)
# More settings for CMake, e.g. make CMAKE_FLAGS=-DHAUL_WITH_ONEDNN=OFF
CMAKE_FLAGS ?=

# A build folder that was configured already keeps its generator.
GENERATOR := $(if $(wildcard $(BUILD)/CMakeCache.txt),,$(if $(shell command -v ninja),-G Ninja))

.PHONY: all configure demo test check bench gpu-check install uninstall format docs clean help

all: configure
	@cmake --build $(BUILD) -j $(JOBS)

configure:
	@command -v cmake >/dev/null || { echo "cmake is missing: run tools/setup, or make demo" >&2; exit 1; }
	@cmake -S . -B $(BUILD) $(GENERATOR) $(CMAKE_FLAGS) >$(BUILD).log 2>&1 || { cat $(BUILD).log >&2; rm -f $(BUILD).log; exit 1; }
	@grep '^-- haul ' $(BUILD).log | cut -c4-; rm -f $(BUILD).log

demo:
	@tools/setup
	@$(MAKE) --no-print-directory configure
	@cmake --build $(BUILD) -j $(JOBS) --target haul_cli
	@HAUL=$(BUILD)/haul; if [ -x tools/demo ]; then HAUL="$$HAUL" tools/demo; else "$$HAUL" train; fi

test check:
	@tools/setup --test
	@$(MAKE) --no-print-directory configure CMAKE_FLAGS="-DHAUL_TESTS=ON $(CMAKE_FLAGS)"
	@cmake --build $(BUILD) -j $(JOBS)
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS) $(CTEST_FLAGS)

bench: configure
	@cmake --build $(BUILD) -j $(JOBS) --target haul_cli benches
	@if command -v python3 >/dev/null; then BUILD=$(BUILD) tools/bench; else \
	    for program in $(BUILD)/bench/*; do if [ -f "$$program" ] && [ -x "$$program" ]; then HAUL=$(BUILD)/haul "$$program" || exit 1; fi; done; fi

gpu-check:
	@tools/gpu-check $(GPU_CHECK_FLAGS)

install: all
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

uninstall:
	@xargs -d '\n' rm -fv < $(BUILD)/install_manifest.txt

format:
	@git ls-files '*.c' '*.h' | xargs $(shell command -v clang-format-14 || echo clang-format) -i

docs:
	@mkdir -p $(BUILD)
	@OUTPUT=$(BUILD)/docs doxygen docs/Doxyfile
	@echo "the reference is in $(BUILD)/docs/html/index.html"

clean:
	@rm -rf $(BUILD)

help:
	@echo "make            build the library and the haul command into $(BUILD)/"
	@echo "make demo       install what is missing, build, and train a network on what this machine has"
	@echo "make test       install what is missing, build, and run all tests"
	@echo "make bench      run the benchmarks"
	@echo "make gpu-check  build, test and measure on an NVIDIA GPU, within eight minutes"
	@echo "make install    install into PREFIX ($(PREFIX)), below DESTDIR"
	@echo "make uninstall  remove what the last install wrote"
	@echo "make docs       write the API reference with doxygen"
	@echo "make format     format the C sources with clang-format"
	@echo "make clean      remove $(BUILD)/"
	@echo
	@echo "Settings: BUILD=build PREFIX=/usr/local DESTDIR= JOBS=$(JOBS) CMAKE_FLAGS=-DHAUL_WITH_ONEDNN=OFF"
