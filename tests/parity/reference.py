"""Logits of llama, mistral, qwen2, qwen3 and gemma3 in f32 NumPy.

Written from the papers and configurations, independent of MLX and of quern.
A Spec says what differs between families; it comes from a config.json or from
the fields of a GGUF. Weights are {name: f32} under the names of the file.
"""

import math
from dataclasses import dataclass, field

import numpy as np

GGUF_MODULES = {
    "embed": "token_embd", "final_norm": "output_norm", "head": "output",
    "layer": "blk.{}.", "in_norm": "attn_norm", "q": "attn_q", "k": "attn_k",
    "v": "attn_v", "o": "attn_output", "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm", "gate": "ffn_gate", "up": "ffn_up",
    "down": "ffn_down", "mlp_norm": "ffn_norm",
    "attn_out_norm": "post_attention_norm", "mlp_out_norm": "post_ffw_norm",
}
HF_MODULES = {
    "embed": "model.embed_tokens", "final_norm": "model.norm",
    "head": "lm_head", "layer": "model.layers.{}.",
    "in_norm": "input_layernorm", "q": "self_attn.q_proj",
    "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
    "q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm",
    "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
    "mlp_norm": "post_attention_layernorm",
}
HF_GEMMA_MODULES = {**HF_MODULES, "attn_out_norm": "post_attention_layernorm",
                    "mlp_norm": "pre_feedforward_layernorm",
                    "mlp_out_norm": "post_feedforward_layernorm"}


@dataclass
class Rope:
    frequencies: np.ndarray  # [head_dim / 2], radians per position
    amplitude: float = 1.0   # factor on queries and keys (yarn)
    pairs: bool = False      # rotate neighbours, not halves


@dataclass
class Spec:
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    scale: float             # of attention scores
    ropes: list              # one Rope a layer
    modules: dict            # role -> module name in the file
    windows: list = field(default_factory=list)  # a layer's window or 0
    embed_scale: float = 1.0
    norm_offset: float = 0.0  # added to stored norm weights
    gelu: bool = False
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    prefix: str = ""


def _llama3(freq, scaling):
    """Slows long waves by factor, leaves short ones, blends in between."""
    old = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    waves = old * freq / (2 * math.pi)  # turns within the trained length
    keep = np.clip((waves - low) / (high - low), 0, 1)
    return freq * (keep + (1 - keep) / scaling["factor"])


def _yarn(freq, base, scaling):
    """Interpolates the slow dimensions, keeps the fast ones (YaRN, 3.2)."""
    dims = 2 * len(freq)
    old = scaling["original_max_position_embeddings"]

    def dimension_of(turns):
        return (dims * math.log(old / (turns * 2 * math.pi))
                / (2 * math.log(base)))

    low = max(math.floor(dimension_of(scaling.get("beta_fast", 32))), 0)
    high = min(math.ceil(dimension_of(scaling.get("beta_slow", 1))), dims - 1)
    ramp = (np.arange(len(freq)) - low) / max(high - low, 0.001)
    slow = np.clip(ramp, 0, 1)
    return freq * (1 - slow + slow / scaling["factor"])


def make_rope(dims, base, scaling=None, pairs=False, divisors=None):
    freq = base ** (-np.arange(0, dims, 2, dtype=np.float64) / dims)
    if divisors is not None:
        freq = freq / divisors
    scaling = scaling or {}
    kind = scaling.get("rope_type") or scaling.get("type", "default")
    amplitude = 1.0
    if kind == "linear":
        freq = freq / scaling["factor"]
    elif kind == "llama3":
        freq = _llama3(freq, scaling)
    elif kind == "yarn":
        freq = _yarn(freq, base, scaling)
        amplitude = 0.1 * math.log(scaling["factor"]) + 1
    elif kind != "default":
        raise ValueError(f"no reference for rope type {kind}")
    return Rope(freq, amplitude, pairs)


def patterned(layers, window, pattern):
    """Windows where each pattern-th layer sees everything."""
    return [0 if (i + 1) % pattern == 0 else window for i in range(layers)]


def windows_of(text):
    """The window of each layer of a config.json, 0 where it sees all."""
    layers, window = text["num_hidden_layers"], text.get("sliding_window") or 0
    if "layer_types" in text:
        return [window if kind == "sliding_attention" else 0
                for kind in text["layer_types"]]
    if "sliding_window_pattern" in text:
        return patterned(layers, window, text["sliding_window_pattern"])
    if text.get("use_sliding_window"):
        full = text["max_window_layers"]
        return [0] * full + [window] * (layers - full)
    return [window if text["model_type"] == "mistral" else 0] * layers


def bfloat16(x):
    """x rounded to the nearest bfloat16, ties to even."""
    bits = int(np.float32(x).view(np.uint32))
    bits += 0x7fff + (bits >> 16 & 1)
    return float(np.uint32(bits & 0xffff0000).view(np.float32))


def spec_from_config(config):
    """The Spec of a config.json."""
    text = config.get("text_config", config)
    layers, heads = text["num_hidden_layers"], text["num_attention_heads"]
    head_dim = text.get("head_dim") or text["hidden_size"] // heads
    parameters = text.get("rope_parameters") or {}
    local_rope = {"rope_theta": text.get("rope_local_base_freq")}
    if "full_attention" in parameters:  # each kind of layer has its own
        local_rope = parameters["sliding_attention"]
        parameters = parameters["full_attention"]
    base = text.get("rope_theta", parameters.get("rope_theta"))
    rope = make_rope(head_dim, base, text.get("rope_scaling") or parameters)
    spec = Spec(layers=layers, heads=heads,
                kv_heads=text.get("num_key_value_heads", heads),
                head_dim=head_dim, eps=text["rms_norm_eps"],
                scale=head_dim ** -0.5, ropes=[rope] * layers,
                windows=windows_of(text), modules=HF_MODULES)
    if text["model_type"] == "gemma3_text":
        local = make_rope(head_dim, local_rope["rope_theta"], local_rope)
        # The checkpoints are bfloat16 and so is this factor, in training and
        # in mlx-lm; llama.cpp keeps it in f32 for a GGUF.
        scale = bfloat16(math.sqrt(text["hidden_size"]))
        _make_gemma(spec, scale, windows_of(text), local)
        spec.modules = HF_GEMMA_MODULES
        spec.norm_offset = 1.0
        spec.scale = text["query_pre_attn_scalar"] ** -0.5
        spec.attention_cap = text.get("attn_logit_softcapping") or 0.0
        spec.logit_cap = text.get("final_logit_softcapping") or 0.0
    if "text_config" in config:
        spec.prefix = "language_model."
    return spec


def _make_gemma(spec, embed_scale, windows, local_rope):
    spec.embed_scale = embed_scale
    spec.gelu = True
    spec.windows = windows
    spec.ropes = [local_rope if w else spec.ropes[0] for w in windows]


def spec_from_gguf(fields, weights):
    """The Spec of a GGUF's fields."""
    arch = fields["general.architecture"]

    def get(key, default=None):
        return fields.get(f"{arch}.{key}", default)

    layers, heads = get("block_count"), get("attention.head_count")
    head_dim = get("attention.key_length", get("embedding_length") // heads)
    scaling = {"rope_type": get("rope.scaling.type", "default"),
               "factor": get("rope.scaling.factor"),
               "original_max_position_embeddings":
                   get("rope.scaling.original_context_length")}
    rope = make_rope(head_dim, get("rope.freq_base", 10000.0), scaling,
                     pairs=arch == "llama",
                     divisors=weights.get("rope_freqs.weight"))
    spec = Spec(layers=layers, heads=heads,
                kv_heads=get("attention.head_count_kv", heads),
                head_dim=head_dim,
                eps=get("attention.layer_norm_rms_epsilon"),
                scale=head_dim ** -0.5, ropes=[rope] * layers,
                windows=[0] * layers, modules=GGUF_MODULES)
    if arch == "gemma3":
        window = get("attention.sliding_window")
        _make_gemma(spec, math.sqrt(get("embedding_length")),
                    patterned(layers, window, 6), make_rope(head_dim, 10000.0))
    return spec


def rotate(x, rope):
    """x: [H, T, D]"""
    angle = np.arange(x.shape[1])[:, None] * rope.frequencies
    cos, sin = (f(angle).astype(np.float32) for f in (np.cos, np.sin))
    half = x.shape[-1] // 2
    a, b = ((slice(0, None, 2), slice(1, None, 2)) if rope.pairs
            else (slice(0, half), slice(half, None)))
    y = np.empty_like(x)
    y[..., a] = x[..., a] * cos - x[..., b] * sin
    y[..., b] = x[..., b] * cos + x[..., a] * sin
    return y * np.float32(rope.amplitude)


def _soft_cap(x, cap):
    return np.float32(cap) * np.tanh(x / np.float32(cap)) if cap else x


def _activate(x, gelu):
    if gelu:
        inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)
        return (0.5 * x * (1 + np.tanh(inner))).astype(np.float32)
    return x / (1 + np.exp(-x))


class Model:
    """A Spec with its weights; logits(ids) runs the whole sequence."""

    def __init__(self, spec, weights):
        self.spec = spec
        self.weights = weights

    def _weight(self, role, layer=None, kind="weight"):
        """The array of a role, None where the file has none."""
        modules = self.spec.modules
        if role not in modules:
            return None
        inside = "" if layer is None else modules["layer"].format(layer)
        return self.weights.get(
            f"{self.spec.prefix}{inside}{modules[role]}.{kind}")

    def _norm(self, x, role, layer=None):
        weight = self._weight(role, layer)
        if weight is None:
            return x
        mean = np.mean(x * x, axis=-1, keepdims=True)
        return (x / np.sqrt(mean + np.float32(self.spec.eps))
                * (weight + np.float32(self.spec.norm_offset)))

    def _linear(self, x, role, layer):
        y = x @ self._weight(role, layer).T
        bias = self._weight(role, layer, "bias")
        return y if bias is None else y + bias

    def _heads(self, x, role, layer, count):
        """[T, hidden] -> [count, T, D]"""
        y = self._linear(x, role, layer)
        return y.reshape(len(x), count, -1).transpose(1, 0, 2)

    def _attend(self, x, layer):
        spec = self.spec
        q = self._heads(x, "q", layer, spec.heads)
        k = self._heads(x, "k", layer, spec.kv_heads)
        v = self._heads(x, "v", layer, spec.kv_heads)
        q = rotate(self._norm(q, "q_norm", layer), spec.ropes[layer])
        k = rotate(self._norm(k, "k_norm", layer), spec.ropes[layer])
        repeats = spec.heads // spec.kv_heads
        k, v = k.repeat(repeats, 0), v.repeat(repeats, 0)
        distance = np.subtract.outer(np.arange(len(x)), np.arange(len(x)))
        visible = distance >= 0
        if spec.windows[layer]:
            visible &= distance < spec.windows[layer]
        scores = _soft_cap(q @ k.transpose(0, 2, 1) * np.float32(spec.scale),
                           spec.attention_cap)
        scores = np.where(visible, scores, np.float32(-np.inf))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        out = (scores @ v).transpose(1, 0, 2).reshape(len(x), -1)
        return self._linear(out, "o", layer)

    def _mlp(self, x, layer):
        gate = _activate(self._linear(x, "gate", layer), self.spec.gelu)
        return self._linear(gate * self._linear(x, "up", layer), "down", layer)

    def logits(self, ids, last_only=False):
        """[T, V] f32, or [1, V] of the last position."""
        x = self._weight("embed")[ids] * np.float32(self.spec.embed_scale)
        for i in range(self.spec.layers):
            out = self._attend(self._norm(x, "in_norm", i), i)
            x = x + self._norm(out, "attn_out_norm", i)
            out = self._mlp(self._norm(x, "mlp_norm", i), i)
            x = x + self._norm(out, "mlp_out_norm", i)
        x = self._norm(x[-1:] if last_only else x, "final_norm")
        head = self._weight("head")
        head = self._weight("embed") if head is None else head
        return _soft_cap(x @ head.T, self.spec.logit_cap)
