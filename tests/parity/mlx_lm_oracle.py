"""Logits of mlx-lm, in f32 throughout.

The weights are handed over already decoded to f32 (see weights.py), so no
bf16 activation or scale takes part: mlx-lm gives the graph, not the precision.
"""

import mlx.core as mx
import numpy as np
from mlx_lm.utils import _get_classes


def logits(config, weights, ids):
    """[T, V] of a config.json and {Hugging Face name: f32}."""
    if "text_config" in config:  # mlx-lm reads the outer size only
        vocab = config["text_config"]["vocab_size"]
        config = {**config, "vocab_size": vocab}
    model_class, args_class = _get_classes(config)
    model = model_class(args_class.from_dict(config))
    arrays = {name: mx.array(w) for name, w in weights.items()}
    model.load_weights(list(model.sanitize(arrays).items()))
    return np.array(model(mx.array(ids)[None])[0])
