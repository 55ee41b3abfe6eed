"""What is measured: the models, the cases and their goals."""

import re
from dataclasses import dataclass, replace

LLAMA, MLX_LM, QUERN = "llama.cpp", "mlx-lm", "quern"
LIMITS_S = {QUERN: 600, LLAMA: 600, MLX_LM: 30}  # of one run
NEAR, DEEP = "depth-128", "depth-8192"

MODELS = {
    "smollm2": "SmolLM2 135M, Q4_1",
    "smollm2-mlx": "SmolLM2 135M, MLX 4-bit",
    "gemma3": "Gemma 3 270M, Q4_K_M",
    "qwen-coder": "Qwen2.5-Coder 0.5B, Q4_K_M",
}
GGUFS = ("smollm2", "gemma3", "qwen-coder")


# Why an op is under 60 % of its bound, by what its name matches.
REASONS = {
    r"matmul/(F32|BF16)/.*rows:512":
        "a vector of weights is loaded, and widened, for four rows of x",
    r"matmul/.*rows:512":
        "a scale for every 32 k (16 in Q2_K, Q3_K, Q6_K) leaves half of an "
        "AMX tile's k empty, and each sum meets it in two or three vector "
        "operations; without AMX these take a third of the time",
    r"matmul/.*rows:(8|12)$":
        "the products of so many rows take longer than the bytes",
    r"matmul/Q2_K/.*rows:1$":
        "two scales and two minima for 32 codes of 2 bits",
    r"matmul/.*rows:1$":
        "one op of a quarter of a millisecond: its hand-over, and the start of "
        "each thread's stretch, where nothing was fetched ahead",
    r"attend/.*tokens:(256|512)$":
        "the exponentials, maxima and sums between the products",
    r"attend/.*tokens:1$":
        "widening f16 and the products take about as long as the bytes, and "
        "do not overlap with them fully",
}


def reason_of(op):
    return next((why for start, why in REASONS.items()
                 if re.match(start, op)), "")


ALL = 1 << 30


@dataclass(frozen=True)
class Case:
    """One figure of quern and of a peer; `goal`, `small_goal` (of SmolLM2):
    how many times as fast quern shall be."""
    name: str
    title: str
    how: str
    figure: str = "decode"  # or prefill, start
    prompt: int = 0         # tokens before the first that is generated
    gen: int = 0
    streams: int = 1
    made_up: bool = False   # quern's prompt is made-up keys and values
    isa: str = ""
    neighbour: bool = False
    peer: str = LLAMA
    models: tuple = GGUFS
    goal: float | None = None
    small_goal: float | None = None
    rounds: int = 3         # at most; ALL: as many as there are

    @property
    def unit(self):
        return "s" if self.figure == "start" else "tok/s"

    def goal_of(self, model):
        small = model.startswith("smollm2") and self.small_goal
        return small or self.goal

    def times_as_fast(self, own, peer):
        return peer / own if self.figure == "start" else own / peer

    def shortened(self):
        """For a trial of the tool."""
        return replace(self, prompt=min(self.prompt, 16), gen=min(self.gen, 4),
                       streams=min(self.streams, 2))


CASES = (
    Case("decode", "Decode, one stream",
         "64 tokens after a prompt of 512. The MLX directory holds the same "
         "model; llama.cpp runs its Q4_1 file beside it.",
         prompt=512, gen=64, models=tuple(MODELS), goal=1.3, small_goal=1.6,
         rounds=ALL),
    Case("prefill-512", "Prefill, 512 tokens",
         "A prompt in an empty cache.", figure="prefill", prompt=512,
         models=tuple(MODELS), goal=1.5, small_goal=2, rounds=ALL),
    Case("prefill-4096", "Prefill, 4096 tokens",
         "A prompt in an empty cache.", figure="prefill", prompt=4096,
         goal=1.5, small_goal=2, rounds=ALL),
    Case("streams-8", "Decode, 8 streams",
         "All streams together, 64 tokens each after one prompt of 512 that "
         "each has a copy of.",
         prompt=512, gen=64, streams=8, models=tuple(MODELS), goal=1.5),
    Case(NEAR, "Decode after 128 tokens",
         "32 tokens. quern fills its cache with made-up keys and values, "
         "which take the same time to read; llama.cpp computes them.",
         prompt=128, gen=32, made_up=True),
    Case(DEEP, "Decode after 8192 tokens", "As after 128.",
         prompt=8192, gen=32, made_up=True),
    Case("start", "Start to first token",
         "From the start of `quern serve` or `llama-server` (without its "
         "warm-up) to its answer of one token over HTTP, with room for 4096 "
         "tokens of one stream; the file is in the page cache.",
         figure="start", prompt=1, gen=1, goal=2),
    Case("neighbour", "Decode beside a busy neighbour",
         "32 tokens after 128, while another process keeps the last core "
         "busy.",
         prompt=128, gen=32, neighbour=True, goal=3),
    Case("decode-avx2", "Decode, quern held to AVX2",
         "As the first, with `QUERN_ISA=avx2`; llama.cpp has all that the "
         "CPU has.", prompt=512, gen=64, isa="avx2"),
    Case("prefill-avx2", "Prefill, quern held to AVX2",
         "512 tokens, likewise.", figure="prefill", prompt=512, isa="avx2"),
    Case("decode-mlx-lm", "Decode beside mlx-lm",
         "8 tokens after 8, the same MLX directory: mlx-lm is slow on a CPU, "
         f"and a run of it gets {LIMITS_S[MLX_LM]} s. It chooses its threads "
         "itself.",
         prompt=8, gen=8, peer=MLX_LM, models=("smollm2-mlx",), rounds=1),
    Case("prefill-mlx-lm", "Prefill beside mlx-lm", "16 tokens, likewise.",
         figure="prefill", prompt=16, gen=1, peer=MLX_LM,
         models=("smollm2-mlx",), rounds=1),
)
