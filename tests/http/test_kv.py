"""Keys and values kept as kv_config.json says."""

import concurrent.futures
import json
import os
import re
import tempfile

import harness


class KvConfig(harness.Client):
    SCHEMES = [{"layer_idx": 0, "scheme": "turbo:k8v3"},
               {"layer_idx": 1, "bits": 4, "group_size": 32},
               {"layer_idx": 2, "bits": 8, "group_size": 64},
               {"layer_idx": 4, "bits": 16}]  # layer 3 is not listed
    SIGNATURES = ["turboquant:8:3", "quant:4:32/f16", "quant:8:64/f16",
                  "plain/f16", "plain/f16"]

    @classmethod
    def setUpClass(cls):
        path = cls.enterClassContext(tempfile.TemporaryDirectory())
        harness.Model(path, harness.ServerCase.SCRIPTS,
                      layers=len(cls.SIGNATURES), noise=0.1)
        with open(os.path.join(path, "kv_config.json"), "w") as f:
            json.dump(cls.SCHEMES, f)
        cls.server = harness.Server(path, "--kv", "config", "--batch", "8")
        cls.addClassCleanup(cls.server.stop)

    def test_stats_tell_each_layers_scheme(self):
        kv = self.server.get("/stats").json()["kv_quant"]
        heads = re.search(r"/\d+x64$", kv["by_layer"][0])[0]
        self.assertEqual(kv["by_layer"],
                         [f"append/{s}{heads}" for s in self.SIGNATURES])
        self.assertEqual(kv["layers"], {layer: kv["by_layer"].count(layer)
                                        for layer in kv["by_layer"]})

    def reply(self, i):
        """Scores depend on all keys and values, the text on the scores."""
        answer = self.server.post("/v1/completions", {
            "prompt": "@plain and " * (5 * i + 1), "max_tokens": 40,
            "ignore_eos": True, "seed": i, "temperature": 1,
            "logprobs": 5}).json()["choices"][0]
        return answer["text"], answer["logprobs"]

    def test_eight_at_once_are_as_alone(self):
        alone = [self.reply(i) for i in range(8)]
        self.assertEqual(len({text for text, _ in alone}), 8)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            together = list(pool.map(self.reply, range(8)))
        self.assertEqual(together, alone)
