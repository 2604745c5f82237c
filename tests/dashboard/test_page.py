"""The page in a real Chromium: chosen, pointed at, read by keyboard, in either light."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.chart.exposed import families
from tests.dashboard.browser import Page, chromium
from tests.dashboard.recorded import Looks, a_run, a_series
from tests.dashboard.serving import dashboard

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

T0, SECONDS = 1_790_000_000.0, 1200
FIGURES = '[data-title="Step"] .value'
IDLE = '[data-title="Idle"]'


def looks(*, steps_per_second: float) -> Looks:
    """Twenty minutes of a job whose every series moves."""
    names = sorted({name for each in families() for name in each.series})

    found = []
    for at in range(0, SECONDS + 1, 5):
        values = {}
        for name in names:
            edges = ("0.0", "1.0", "2.0", "+Inf") if name.endswith("_bucket") else ("",)
            for edge in edges:
                labels = {"le": edge} if edge else {}
                series = a_series(
                    name,
                    pool="L4",
                    role="rollout",
                    pod="rollout-l4-0-0",
                    outcome="accepted",
                    phase="Running",
                    type="Running",
                    state="ready",
                    link="intra",
                    kind="full",
                    **labels,
                )
                values[series] = _value(name, at, edge, steps_per_second * at)
        found.append((T0 + at, values))
    return found


def _value(name: str, at: float, edge: str, grown: float) -> float:
    if name in {"hetrl_trainer_step", "hetrl_policy_version", "hetrl_worker_policy_version"}:
        return math.floor(grown)
    if name == "hetrl_training_steps":
        return 500.0
    if name.endswith("_bucket"):
        return grown * {"0.0": 0.2, "1.0": 0.7}.get(edge, 1.0)
    if name.endswith(("_total", "_count", "_sum")):
        return grown
    return 1.0 + math.sin(at / 100) ** 2


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dashboard over two runs, the second of which is newer and twice as fast."""
    folder = tmp_path_factory.mktemp("runs")
    a_run(folder / "math-1", looks(steps_per_second=0.1))
    later = [(at + 5000, values) for at, values in looks(steps_per_second=0.2)]
    a_run(folder / "math-2", later)
    with dashboard(str(folder)) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    """One for all tests: it takes seconds to start."""
    async with chromium(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def page(address: str, browser: Page) -> AsyncIterator[Page]:
    """The dashboard as somebody sees it for the first time."""
    await browser.look(width=1440, height=900, dark=False)
    await browser.open(address)
    await browser.appears(FIGURES)
    browser.requested.clear()
    yield browser
    assert browser.troubles == []
    assert all(each.startswith((address, "data:")) for each in browser.requested)
    await browser.ask("localStorage.clear()")
    await browser.open("about:blank")


async def test_job_is_chosen_and_its_figures_are_shown(page: Page) -> None:
    await page.wait(f"document.querySelector('{FIGURES}').innerText === '240'")

    await page.choose('select[name="hetrljob"]', "math-1")

    await page.wait(f"document.querySelector('{FIGURES}').innerText === '120'")
    assert "hetrljob=math-1" in await page.ask("location.hash")


async def test_span_is_chosen_and_the_address_keeps_it(page: Page) -> None:
    async def oldest_version_is(version: str) -> None:
        row = "[...document.querySelectorAll('[data-title=\"Versions\"] tbody tr:first-child *')]"
        await page.wait(f"{row}[2]?.textContent === '{version}'")

    await oldest_version_is("60")

    await page.choose("#span", "last 5")

    await page.wait("location.hash.includes('span=300')")
    await page.reload()
    await page.appears(FIGURES)
    assert await page.ask("document.querySelector('#span').value") == "300"
    await oldest_version_is("180")


async def test_pointer_on_a_chart_shows_figures_and_marks_the_time(
    page: Page,
) -> None:
    await page.hover(f"{IDLE} .plot", x=0.6)

    said = await page.wait("!tip.hidden && tip.innerText")
    assert "trainer" in said
    assert "rollouts on L4" in said
    assert "%" in said
    charts = await page.ask("document.querySelectorAll('.plot svg').length")
    assert await page.ask("document.querySelectorAll('.hair').length") == charts

    await page.hover("h1")
    assert await page.wait("tip.hidden && !document.querySelector('.hair')")


async def test_chart_is_read_by_keyboard_and_as_a_table(page: Page) -> None:
    await page.ask(f"document.querySelector('{IDLE} .plot').focus()")
    await page.key("ArrowLeft")
    first = await page.wait("!tip.hidden && tip.querySelector('time').innerText")
    for _ in range(3):
        await page.key("ArrowLeft")
    assert await page.wait(f"tip.querySelector('time').innerText !== '{first}'")
    await page.key("Escape")
    assert await page.wait("tip.hidden")

    label = await page.ask(f"document.querySelector('{IDLE} .plot').getAttribute('aria-label')")
    assert label.startswith("Idle: trainer")
    await page.click(f"{IDLE} .head button:last-child")
    table = await page.wait(f"document.querySelector('{IDLE} table')?.innerText")
    assert table.splitlines()[0].split() == ["now", "least", "mean", "most"]


async def test_boards_are_changed_and_every_panel_says_what_it_is(page: Page) -> None:
    await page.click("nav button:nth-child(2)")
    await page.appears('[data-title="GPUs held, by pool"] svg')
    assert await page.ask("document.querySelector('nav [aria-current=true]').innerText") == "Fleet"

    await page.click('[data-title="GPUs held, by pool"] .head button')
    about = """document.querySelector('[data-title="GPUs held, by pool"] .about')?.innerText"""
    assert await page.wait(about) == "By GPU kind."


async def test_light_and_dark_follow_the_system_until_somebody_chooses(page: Page) -> None:
    async def paper() -> str:
        return str(await page.ask("getComputedStyle(document.body).backgroundColor"))

    light = await paper()
    await page.look(width=1440, height=900, dark=True)
    assert await paper() != light

    await page.click("#theme")
    await page.wait(f"getComputedStyle(document.body).backgroundColor === '{light}'")
    await page.reload()
    await page.appears(FIGURES)
    assert await paper() == light


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_words_stand_out_from_their_background(page: Page, dark: bool) -> None:
    """WCAG 2.2 AA: 4.5 to 1 for text, 3 to 1 for the lines of charts."""
    await page.look(width=1440, height=900, dark=dark)
    found = await page.ask(_CONTRASTS)
    assert {name: ratio for name, ratio in found.items() if ratio < 4.5 and name[0] != "s"} == {}
    assert {name: ratio for name, ratio in found.items() if ratio < 3} == {}


_CONTRASTS = """(() => {
  const box = document.body.appendChild(document.createElement("i"));
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const light = (name) => {
    box.style.color = `var(--${name})`;
    pen.fillStyle = getComputedStyle(box).color;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map((each) => each / 255)
      .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const ratio = (one, other) =>
    Math.max(light(one), light(other)) / Math.min(light(one), light(other));
  const names = ["ink", "quiet", "bad", "accent", ..."01234567".replace(/./g, " s$&").split(" ")]
    .filter(Boolean);
  const found = Object.fromEntries(names.map((each) => [each, ratio(each, "card")]));
  found["quiet on paper"] = ratio("quiet", "paper");
  box.remove();
  return found;
})()"""


async def test_page_fits_a_phone(page: Page) -> None:
    await page.look(width=390, height=800, dark=False)
    await asyncio.sleep(0)
    assert await page.wait("document.documentElement.scrollWidth <= 390")


async def test_source_that_does_not_answer_is_named(browser: Page) -> None:
    with dashboard("--prometheus", "http://127.0.0.1:9") as nobody:
        await browser.open(nobody)
        said = await browser.wait("document.querySelector('#news.bad')?.innerText")
    browser.troubles.clear()  # the console's own words about the same
    assert "no answer from Prometheus at http://127.0.0.1:9" in said
