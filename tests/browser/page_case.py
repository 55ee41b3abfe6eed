"""The page in headless Chromium, on a server with a scripted model.

Each test has a browser context of its own. What the browser's console says,
refusals of the content security policy included, fails a test.
"""

import json
import os
import re

import harness
import scripts
from playwright.sync_api import expect, sync_playwright

CHROMIUM = os.environ.get("QUERN_CHROMIUM", "/usr/bin/chromium")
PATIENCE_MS = 60_000

expect.set_options(timeout=PATIENCE_MS)


class PageCase(harness.ServerCase):
    SCRIPTS = scripts.SCRIPTS
    CONTEXT = {}  # of the browser, see Browser.new_context

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        playwright = sync_playwright().start()
        cls.addClassCleanup(playwright.stop)
        # Chromium's sandbox does not work for root.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        cls.browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--disable-dev-shm-usage", *sandbox])
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.console = []
        self.expected = []  # patterns of what the console may say
        self.bodies = []    # of requests for replies
        context = self.browser.new_context(**self.CONTEXT)
        self.addCleanup(context.close)
        context.set_default_timeout(PATIENCE_MS)
        self.page = context.new_page()
        self.page.on("console", lambda m: self.console.append(m.text))
        self.page.on("pageerror", lambda e: self.console.append(str(e)))
        self.page.on("request", self._keep_body)
        self.open()

    def tearDown(self):
        said = [text for text in self.console
                if not any(re.search(p, text) for p in self.expected)]
        self.assertEqual(said, [])

    def _keep_body(self, request):
        if request.url.endswith("/v1/chat/completions"):
            self.bodies.append(json.loads(request.post_data))

    def open(self, server=None):
        self.page.goto((server or self.server).url("/"))

    # Parts of the page.

    @property
    def input(self):
        return self.page.locator("#input")

    @property
    def answers(self):
        return self.page.locator(".assistant")

    @property
    def users(self):
        return self.page.locator(".user")

    def button(self, name, within=None):
        return (within or self.page).get_by_role("button", name=name,
                                                 exact=True)

    # What a user does.

    def send(self, text):
        self.input.fill(text)
        self.input.press("Enter")

    def ask(self, text):
        """Sends and waits for the whole reply; returns it."""
        self.send(text)
        return self.wait_for_answer()

    def wait_for_answer(self):
        expect(self.page.locator("#send:not(.running)")).to_be_visible()
        expect(self.answers.last.locator(".actions")).to_be_visible()
        return self.answers.last

    def set_settings(self, **values):
        self.button("Settings").click()
        for name, value in values.items():
            field = self.page.locator(f"#setting-{name}")
            if name == "enable_thinking":
                field.select_option(value)
            else:
                field.fill(value)
        self.button("Save").click()
