# Short names for what CMake does. `make help` lists them.

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)
# More settings for CMake, e.g. make CMAKE_FLAGS=-DHAUL_WITH_ONEDNN=OFF
CMAKE_FLAGS ?=

# A build folder that was configured already keeps its generator.
GENERATOR := $(if $(wildcard $(BUILD)/CMakeCache.txt),,$(if $(shell command -v ninja),-G Ninja))

# `make demo` builds for the instructions of this machine only; everything else builds all levels.
ALL_LEVELS := $(shell grep -qs '^HAUL_CPU_LEVELS:[A-Z]*=native$$' $(BUILD)/CMakeCache.txt && echo -UHAUL_CPU_LEVELS)
LEVELS     ?= $(ALL_LEVELS)
VERSION    := $(shell sed -n 's/^\#define HAUL_VERSION_STRING "\(.*\)"$$/\1/p' include/haul/base.h)

.PHONY: all configure demo test check ptx hostile coverage bench gpu-check install uninstall dist deb format docs clean help

all: configure
	@cmake --build $(BUILD) -j $(JOBS)

configure:
	@command -v cmake >/dev/null || { echo "cmake is missing: run tools/setup, or make demo" >&2; exit 1; }
	@cmake -S . -B $(BUILD) $(GENERATOR) $(LEVELS) $(CMAKE_FLAGS) >$(BUILD).log 2>&1 || { cat $(BUILD).log >&2; rm -f $(BUILD).log; exit 1; }
	@grep '^-- haul ' $(BUILD).log | cut -c4-; rm -f $(BUILD).log

demo:
	@tools/setup --demo
	@$(MAKE) --no-print-directory configure $(if $(wildcard $(BUILD)/CMakeCache.txt),LEVELS=,LEVELS=-DHAUL_CPU_LEVELS=native)
	@cmake --build $(BUILD) -j $(JOBS) --target haul_cli
	@HAUL=$(BUILD)/haul; if [ -x tools/demo ]; then HAUL="$$HAUL" tools/demo; else "$$HAUL" train; fi

test check:
	@tools/setup --test
	@$(MAKE) --no-print-directory configure CMAKE_FLAGS="-DHAUL_TESTS=ON $(CMAKE_FLAGS)"
	@cmake --build $(BUILD) -j $(JOBS)
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS) $(CTEST_FLAGS)

# The tests of the CUDA backend on kernels as NVIDIA's compiler makes them, run without a GPU (tests/standin/ptx).
ptx:
	@tools/setup --test
	@$(MAKE) --no-print-directory configure CMAKE_FLAGS="-DHAUL_TESTS=ON $(CMAKE_FLAGS)"
	@cmake --build $(BUILD) -j $(JOBS)
	@cd $(BUILD) && ctest -C ptx -L ptx --output-on-failure -j $(JOBS) $(CTEST_FLAGS)

# All tests but those with the label "once", on a build in which mistakes show (src/base/hostile.h). FIFTH=commit runs a fifth of
# those that are not slow, which the hash chooses.
FIFTH ?=
hostile:
	@tools/setup --test
	@cmake --preset hostile $(CMAKE_FLAGS) >build-hostile.log 2>&1 || { cat build-hostile.log >&2; exit 1; }
	@rm -f build-hostile.log
	@tests/support/run/run-hostile $(FIFTH)

# Which lines and branches no test reaches; TESTS chooses some of them.
coverage:
	@tools/coverage $(TESTS)

bench: configure
	@cmake --build $(BUILD) -j $(JOBS) --target haul_cli benches
	@if command -v python3 >/dev/null; then BUILD=$(BUILD) tools/bench; else \
	    for program in $(BUILD)/bench/*; do if [ -f "$$program" ] && [ -x "$$program" ]; then HAUL=$(BUILD)/haul "$$program" || exit 1; fi; done; fi

gpu-check:
	@tools/gpu-check $(GPU_CHECK_FLAGS)

install: all
	@if [ -z "$(DESTDIR)" ] && ! mkdir -p "$(PREFIX)" 2>/dev/null || { [ -z "$(DESTDIR)" ] && [ ! -w "$(PREFIX)" ]; }; then \
	    echo "make install: you may not write to $(PREFIX): run sudo make install, or make install PREFIX=\$$HOME/.local" >&2; exit 1; fi
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"
	@[ -n "$(DESTDIR)" ] || tools/after-install "$(PREFIX)"

uninstall:
	@xargs -d '\n' rm -fv < $(BUILD)/install_manifest.txt

# The tracked files of the last commit, with the commit's date: the same bytes every time.
dist:
	@git rev-parse --verify -q HEAD >/dev/null || { echo "make dist needs a git clone" >&2; exit 1; }
	@mkdir -p $(BUILD)
	@git archive --prefix=haul-$(VERSION)/ HEAD | xz -9 -T1 >$(BUILD)/haul-$(VERSION).tar.xz
	@echo "$(BUILD)/haul-$(VERSION).tar.xz"

deb:
	@CMAKE_FLAGS="$(CMAKE_FLAGS)" packaging/build-deb "$(BUILD)/deb"

format:
	@git ls-files '*.c' '*.h' | xargs $(shell command -v clang-format-14 || echo clang-format) -i

docs:
	@command -v python3 >/dev/null || { echo "python3 is missing: run tools/setup --test" >&2; exit 1; }
	@python3 -B tools/reference --out $(BUILD)/docs

clean:
	@rm -rf $(BUILD)

help:
	@echo "make            build the library and the haul command into $(BUILD)/"
	@echo "make demo       install what is missing, build, and train a network on what this machine has"
	@echo "make test       install what is missing, build, and run all tests"
	@echo "make ptx        run the CUDA backend's tests on the PTX that NVIDIA's compiler makes, without a GPU"
	@echo "make hostile    run all tests on a build with asserts, tiny caches, spilling and a compiler that fails"
	@echo "make coverage   list the branches that no test takes, file by file"
	@echo "make bench      run the benchmarks"
	@echo "make gpu-check  build, test and measure on an NVIDIA GPU, within eight minutes"
	@echo "make install    install into PREFIX ($(PREFIX)), below DESTDIR"
	@echo "make uninstall  remove what the last install wrote"
	@echo "make dist       write $(BUILD)/haul-$(VERSION).tar.xz, from the last commit"
	@echo "make deb        write the Debian packages libhaul, libhaul-dev and haul to $(BUILD)/deb/"
	@echo "make docs       write the reference as HTML into $(BUILD)/docs/"
	@echo "make format     format the C sources with clang-format"
	@echo "make clean      remove $(BUILD)/"
	@echo
	@echo "Settings: BUILD=build PREFIX=/usr/local DESTDIR= JOBS=$(JOBS) CMAKE_FLAGS=-DHAUL_WITH_ONEDNN=OFF"
