// The order of search results: tutorials and how-to pages first, then explanations, the reference and
// messages; records of decisions and the changelog last. A word that stands for a topic leads to the
// page about it.
const LATER = [
  [/^(design\/|changelog|releasing|versioning|contributing)/, -40],
  [/^(errors|testing|reliability|cuda-agreement|performance)/, -20],
  [/^(reference\/|limits|how-it-works|gallery|microcircuit)/, -10],
];
const ABOUT = [
  [/\b(gradient|derivative|grad|enzyme|backprop)/, /^derivatives$/],
  [/\b(cmake|pointer|library|libraries|gsl|fftw|eigen)/, /^libraries$/],
  [/\b(stdp|plasticity|story|tutorial)/, /^story$/],
  [/\b(csr|csc|coo|bcoo|bcsr|sparse|spmv)/, /^sparse$/],
  [/\b(shard|devices)/, /^sharding$/],
  [/\b(random|prng|seed|monte carlo)/, /^random-numbers$/],
  [/\b(flax|nnx|optax|diffrax|equinox|optimi[sz]er|train)/, /^training$/],
  [/\b(ctypes|cffi|pybind|nanobind|migrat|warp)/, /^moving$/],
  [/\b(compar|alternative|pallas|pure_callback|triton)/, /^which-tool$/],
  [/\b(catch|except|exception)/, /^catching-errors$/],
  [/\b(uninstall|cache)/, /^uninstall$/],
  [/\b(windows|macos|wsl|float64|x64|cite|citation)/, /^faq$/],
  [/\b(shared memory|gpu|numba-cuda)/, /^numba-cuda-kernels$/],
  [/\b(without a gpu|laptop|emulat)/, /^cuda-on-cpu$/],
  [/\b(notebook|jupyter|colab)/, /^notebooks$/],
  [/\b(export|deploy|serve)/, /^ship$/],
  [/\b(ci|pytest)\b/, /^ci$/],
  [/\b(bounds|segfault|crash|nan)/, /^find-a-fault$/],
  [/\b(vmap|batch|numba)\b/, /^numba-kernels$/],
];

var Scorer = {
  score: ([page, _title, _anchor, _description, score]) => {
    const query = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase();
    const about = ABOUT.find(([words]) => words.test(query));
    const later = LATER.find(([pages]) => pages.test(page));
    return score + (later ? later[1] : 0) + (about && about[1].test(page) ? 100 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
