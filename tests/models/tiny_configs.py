"""The tiny random models of the parity tests: configurations and forms.

A configuration is a config.json without its quantisation; a form says how the
weights are stored. Add a model family by adding its rows to CONFIGS.
"""

from dataclasses import dataclass, field


def tiny_config(model_type, **keys):
    config = {
        "model_type": model_type,
        "vocab_size": 259,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
    }
    config.update(keys)
    return {k: v for k, v in config.items() if v is not None}


def _llama(**keys):
    return tiny_config("llama", **keys)


def _gemma3(**keys):
    return tiny_config("gemma3_text", **{
        "num_hidden_layers": 4, "head_dim": 32, "num_key_value_heads": 1,
        "rms_norm_eps": 1e-6, "rope_theta": 1e6,
        "rope_local_base_freq": 10000.0, "query_pre_attn_scalar": 48,
        "sliding_window": 16, "sliding_window_pattern": 3,
        "tie_word_embeddings": None, **keys})


def _nested_gemma3():
    text = _gemma3(num_attention_heads=8, num_key_value_heads=4)
    return {"model_type": "gemma3", "text_config": text}


_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
           "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
_YARN = {"rope_type": "yarn", "factor": 4.0,
         "original_max_position_embeddings": 64}

CONFIGS = {
    "llama-tied": _llama(),
    "llama-untied": _llama(tie_word_embeddings=False, vocab_size=288),
    "llama-biases": _llama(attention_bias=True, mlp_bias=True),
    "llama-head-dim": _llama(head_dim=24, hidden_size=96, rms_norm_eps=1e-6),
    "llama-all-heads": _llama(num_key_value_heads=None),
    "llama-rope-default": _llama(rope_scaling={"rope_type": "default"}),
    "llama-rope-linear": _llama(
        rope_scaling={"type": "linear", "factor": 2.5}),
    "llama-rope-llama3": _llama(rope_scaling=_LLAMA3, rope_theta=500000.0),
    "llama-rope-yarn": _llama(rope_scaling=_YARN),
    "llama-layer-types": _llama(
        sliding_window=32,
        layer_types=["sliding_attention", "full_attention"]),
    "mistral": tiny_config("mistral", tie_word_embeddings=False,
                           sliding_window=4096, rope_theta=1e6),
    "mistral-head-dim": tiny_config("mistral", tie_word_embeddings=False,
                                    sliding_window=None, head_dim=48),
    "mistral-window": tiny_config("mistral", tie_word_embeddings=False,
                                  sliding_window=32),
    "qwen2-tied": tiny_config("qwen2", rms_norm_eps=1e-6, rope_theta=1e6,
                              sliding_window=32, use_sliding_window=False),
    "qwen2-untied-yarn": tiny_config("qwen2", tie_word_embeddings=False,
                                     rope_scaling={**_YARN, "type": "yarn"}),
    "qwen3-tied": tiny_config("qwen3", head_dim=128, rms_norm_eps=1e-6,
                              rope_theta=1e6),
    "qwen3-untied": tiny_config("qwen3", head_dim=128, num_hidden_layers=3,
                                tie_word_embeddings=False),
    "qwen3-rope-parameters": tiny_config(
        "qwen3", head_dim=64, rope_theta=None,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
    "qwen3-window": tiny_config("qwen3", head_dim=64, num_hidden_layers=3,
                                sliding_window=32, use_sliding_window=True,
                                max_window_layers=1),
    "gemma3-text": _gemma3(),
    "gemma3-text-linear": _gemma3(
        rope_scaling={"rope_type": "linear", "factor": 8.0}),
    "gemma3-text-softcap": _gemma3(attn_logit_softcapping=2.0,
                                   final_logit_softcapping=5.0),
    "gemma3-layer-types": _gemma3(
        num_hidden_layers=6, sliding_window_pattern=None,
        layer_types=["sliding_attention"] * 5 + ["full_attention"]),
    "gemma3-nested": _nested_gemma3(),
    "gemma3-rope-parameters": _gemma3(
        rope_theta=None, rope_local_base_freq=None, rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0,
                               "rope_theta": 500000.0},
            "sliding_attention": {"rope_type": "default",
                                  "rope_theta": 20000.0}}),
}

# mlx-lm's gemma3 has no soft caps and no rope_parameters, its mistral and
# qwen3 have no window; NumPy alone is the oracle there.
NUMPY_ONLY = {"gemma3-text-softcap", "gemma3-rope-parameters",
              "mistral-window", "qwen3-window"}


@dataclass(frozen=True)
class Form:
    """How the weights of a directory are stored.

    dtype: type of plain tensors and of quantised scales and biases.
    overrides: module path -> (bits, group) or None (kept plain).
    key: the name of the quantisation block in config.json.
    """
    name: str
    dtype: str = "bfloat16"
    bits: int = 0
    group: int = 64
    shards: int = 1
    overrides: dict = field(default_factory=dict)
    key: str = "quantization"


PLAIN = [Form("f32", "float32"), Form("bf16"), Form("f16", "float16")]
Q4 = Form("q4-g64", bits=4)
EVERY_WIDTH = [Form(f"q{bits}-g{group}", bits=bits, group=group)
               for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
MIXED = Form("q4-mixed", bits=4, overrides={
    "lm_head": (8, 32),
    "model.embed_tokens": (6, 128),
    "model.layers.0.self_attn.q_proj": (3, 64),
    "model.layers.1.mlp.down_proj": None,
})
SPECIAL = [
    MIXED,
    Form("f32-sharded", "float32", shards=3),
    Form("q4-sharded", bits=4, shards=4),
    Form("q4-f32-scales", "float32", bits=4),
    Form("q5-f16-scales", "float16", bits=5),
    Form("q4-legacy-key", bits=4, key="quantization_config"),
]


def forms_of(name):
    """The forms that a configuration is tested in."""
    if name == "llama-head-dim":  # 96 wide: groups of 32 only
        return PLAIN + [Form("q4-g32", bits=4, group=32)]
    forms = PLAIN + [Q4]
    if name == "llama-untied":
        forms = PLAIN + EVERY_WIDTH + SPECIAL
    return forms
