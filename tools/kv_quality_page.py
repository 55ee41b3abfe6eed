"""docs/kv_quality.md, from the figures of tools/kv_quality.py."""

from peers.report import table

QUERN, LLAMA, RAW = "quern", "llama.cpp", "raw"

MODELS = {
    "smollm2": "SmolLM2 135M, Q4_1 (heads of 64)",
    "gemma3": "Gemma 3 270M, Q4_K_M (heads of 256)",
    "qwen-coder": "Qwen2.5-Coder 0.5B, Q4_K_M (heads of 64, key biases)",
}

NOTES = {
    "qwen-coder":
        "The biases that this model adds to its keys are up to 211 in layers "
        "0, 1, 2 and 8, beside medians of 1 to 6, so that the step of a group "
        "of 8-bit keys is up to 1 there, for all of its numbers. That is "
        "nearly the whole loss of the 8-bit schemes: with `--exact` it is as "
        "large, and the zeros, about 127 steps at most, are exact. `quern` warns of fewer "
        "bits of keys on such a model.",
}

HEAD = """# Quality of keys and values in codes

What a model's predictions lose when `--kv` keeps keys and values in codes, and
what llama.cpp's `-ctk`/`-ctv` types lose, written by `make kv-quality` from the
[CSV of every figure]({csv}).

Each model reads the same windows of `tests/data/prose.txt` (technical English)
twice, with keys and values in 16 bits and in codes, and the tokens of each
window's second half are predicted (llama-perplexity gives no figure for the
first). "Change" is that of the perplexity, with its standard error over the
tokens; "KL" is the mean divergence of the predictions from those with 16 bits,
in nats; "same top" is how often both have the same most likely token; "times
smaller" is of 16 bits. llama.cpp's 16 bits are its f16; it keeps the logits that
it compares with in 16 bits as well.

`quern perplexity MODEL --file TEXT --compare turbo:k8v3` gives the same figures
for any text.
"""

# What is asked of a scheme on a small tolerant model: change of the
# perplexity, KL, same top.
GATES = {
    "turbo-k8v8": (0.002, 0.0005, 0.98),
    "turbo-k8v4": (0.01, 0.010, 0.94),
    "turbo-k8v3": (0.04, 0.035, 0.895),
    "turbo-k4v4": (None, 0.08, 0.84),
    "turbo-k4v3": (None, 0.10, 0.82),
}
GATE_MODEL = "smollm2"
# Of the KL in long windows, over that in short ones.
MOST_GROWTH = 1.3
GROWTH_SCHEMES = ("turbo-k8v8", "turbo-k8v4", "turbo-k8v3")
KERNEL_SCHEMES = ("8", "turbo-k8v8")


def page(figures, csv):
    parts = [HEAD.format(csv=csv)]
    for model, title in MODELS.items():
        of_model = [f for f in figures
                    if f.model == model and f.how != "exact"]
        if of_model:
            note = NOTES.get(model)
            parts.append(f"## {title}\n\n" + model_section(of_model) +
                         (f"\n{note}\n" if note else ""))
    parts.append(gates_section([f for f in figures if f.model == GATE_MODEL]))
    parts.append(kernel_section(figures))
    return "\n".join(part for part in parts if part)


def contexts_of(figures):
    return sorted({f.context for f in figures})


def model_section(figures):
    fast = [f for f in figures if f.how != "rings"]
    text = base_line(fast) + "\n" + comparison(fast)
    rings = [f for f in figures if f.how == "rings"]
    if rings:
        text += (
            "\nThe layers with a sliding window (15 of 18) stay raw above, as "
            "they do unless `--kv-ring same` says otherwise; llama.cpp's types "
            "are those of all layers. With `--kv-ring same`:\n\n" +
            comparison(rings))
    return text


def base_line(figures):
    lines = []
    for context in contexts_of(figures):
        base = {f.side: f for f in figures
                if f.context == context and f.scheme in (RAW, "f16")}
        told = ", ".join(f"{side} {f.perplexity:.2f}"
                         for side, f in base.items())
        lines.append(f"Windows of {context} tokens, "
                     f"{max(f.tokens for f in base.values())} predicted: "
                     "perplexity with 16 bits "
                     f"{told}.\n")
    return "".join(lines)


def comparison(figures):
    contexts = contexts_of(figures)
    head = ["", "times smaller"]
    for context in contexts:
        head += [f"{context}: change", "KL", "same top"]
    found = {(f.side, f.scheme, f.context): f for f in figures}
    names = dict.fromkeys((f.side, f.scheme) for f in figures
                          if f.scheme not in (RAW, "f16"))
    rows = []
    for side, scheme in sorted(names, key=lambda name: (
            name[0] == LLAMA, times_smaller(name[1]))):
        row = [scheme if side == QUERN else f"{side} {scheme}",
               f"{times_smaller(scheme):.2f}"]
        for context in contexts:
            f = found.get((side, scheme, context))
            row += [change(f), number(f.kl), percent(f.same_top)
                    ] if f else ["", "", ""]
        rows.append(row)
    return table(head, rows)


def times_smaller(scheme):
    """Of a key and a value, 4 bytes in 16 bits."""
    if scheme.startswith("q"):  # a scale of 16 bits for 32
        return 4 / (2 * (int(scheme[1]) / 8 + 2 / 32))
    if scheme.isdigit():        # a scale and a bias for 64
        return 4 / (2 * (int(scheme) / 8 + 4 / 64))
    k, v = scheme.removeprefix("turbo-k").split("v")
    return 4 / ((int(k) + int(v)) / 8 + 6 / 32)


def change(f):
    return f"{100 * f.change:+.2f} ± {100 * f.error:.2f} %"


def number(value):
    return f"{value:.2g}" if value < 0.01 else f"{value:.3g}"


def percent(share):
    return f"{100 * share:.1f} %"


def gates_section(figures):
    found = {(f.scheme, f.context, f.how): f for f in figures
             if f.how in ("exact", "fast")}
    rows = []
    for scheme, (most, kl, same_top) in GATES.items():
        for context in contexts_of(figures):
            for how in ("exact", "fast"):
                f = found.get((scheme, context, how))
                if not f:
                    continue
                rows.append([
                    scheme, str(context), how,
                    gate(f"{100 * f.change:+.2f} %", f"{100 * most:g} %",
                         f.change <= most) if most else "not asked",
                    gate(number(f.kl), f"{kl:g}", f.kl <= kl),
                    gate(percent(f.same_top), percent(same_top),
                         f.same_top >= same_top)])
    return rows and (
        f"## Goals, on {MODELS[GATE_MODEL]}\n\nWhat a scheme may cost: figure "
        "(goal). Exact is what the codes alone cost.\n\n" +
        table(["", "window", "computed", "change, at most", "KL, at most",
               "same top, at least"], rows) +
        growth(found, contexts_of(figures)))


def growth(found, contexts):
    """Of the loss, with the window."""
    near, far = contexts[0], contexts[-1]
    rows = []
    for scheme in GROWTH_SCHEMES:
        short = found.get((scheme, near, "fast"))
        long = found.get((scheme, far, "fast"))
        if near < far and short and long:
            times = long.kl / short.kl
            rows.append([scheme, gate(f"{times:.2f}", f"{MOST_GROWTH:g}",
                                      times <= MOST_GROWTH)])
    return rows and (
        f"\nKL in windows of {far} over KL in windows of {near}, whose tokens "
        "are in part others:\n\n" + table(["", "times, at most"], rows)) or ""


def gate(figure, goal, met):
    return f"{figure} ({goal}): {'met' if met else '**missed**'}"


def kernel_section(figures):
    """What is lost by the codes, and what by computing with them."""
    context = min(contexts_of(figures))
    found = {(f.model, f.how, f.scheme): f
             for f in figures if f.context == context}
    rows = []
    for model, title in MODELS.items():
        for scheme in (RAW, *KERNEL_SCHEMES):
            cells = [found.get((model, "exact", scheme)),
                     found.get((model, "exact", f"fast {scheme}")),
                     found.get((model, "fast", scheme))]
            if cells[0] and cells[1]:
                rows.append([title.split(",")[0], scheme,
                             *(number(f.kl) if f else "" for f in cells)])
    return rows and (
        f"## The codes and the kernels\n\nKL in windows of {context}. "
        "`--exact` computes in f32 on what the codes stand for, so that it "
        "loses what the codes lose. The default computes with activations, "
        "queries and weights of attention in 8 bits, and loses something with "
        "raw keys and values as well; two such runs differ in part by what "
        "each of them loses.\n\n" +
        table(["", "", "exact, from exact raw", "fast, from exact raw",
               "fast, from fast raw"], rows))
