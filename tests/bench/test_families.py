"""The page of `make proof-families`."""

from bench.proof.families import page

REFUSAL = "config.json has attn_logit_softcapping 10.0"


def test_page_has_differences_refusals_and_what_is_missing() -> None:
    found = {
        ("llama", "packed"): 1.5e-6,
        ("llama", "vllm"): 2e-6,
        ("gemma2", "vllm"): REFUSAL,
    }

    lines = list(page(found, "2 CPU cores"))

    missing = " | not run" * 6
    assert f"| gemma2 | not run | not run{missing} | no (below) |" in lines
    assert f"| llama | 1.5e-06 | not run{missing} | 2.0e-06 |" in lines
    assert f"- gemma2, vLLM on CPUs: {REFUSAL}" in lines
    assert "**2 cases, largest difference 2.0e-06.**" in lines
