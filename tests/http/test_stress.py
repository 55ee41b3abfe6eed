"""The short form of stress.py."""

import random
import time

import harness
import stress


class Stress(harness.ServerCase):
    SCRIPTS = stress.SCRIPTS
    SECONDS = 8
    CLIENTS = 16

    def test_every_reply_is_its_solo_reply(self):
        requests = stress.mixed_requests(random.Random(1), 16,
                                         self.model.end)
        clients = stress.Stress(self.server, requests)
        end = time.monotonic() + self.SECONDS
        clients.run(self.CLIENTS, 1, lambda counts:
                    time.monotonic() > end and counts.finished >= 16)
        self.assertEqual(clients.faults, [])
        self.assertGreater(clients.left, 0)
        self.assertEqual(self.wait_until_idle()["kv_bytes"], 0)


class MergedStress(Stress):
    ARGUMENTS = ("--batch-layout", "merged")
    CLIENTS = 8

    def test_stats_name_the_layout(self):
        batch = self.server.get("/stats").json()["batch"]
        self.assertEqual(batch["layout"], "merged")
