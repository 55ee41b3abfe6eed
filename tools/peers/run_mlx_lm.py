"""One run of mlx-lm; prints the rates of its prompt and of its tokens.

usage: run_mlx_lm.py MODEL PROMPT_TOKENS TOKENS      needs mlx-lm
"""

import json
import sys

from mlx_lm import load, stream_generate

path, prompt, gen = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model, tokenizer = load(path)
*_, last = stream_generate(model, tokenizer, list(range(100, 100 + prompt)),
                           max_tokens=gen)
print(json.dumps({"prefill": last.prompt_tps, "decode": last.generation_tps}))
