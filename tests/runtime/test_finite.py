import json
import math

import pytest
import torch

from hetrl_runtime.compute.finite import first_not_finite, objection_to_model

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
GOOD = {
    "zeros": torch.zeros(3),
    "empty": torch.empty(0),
    "integers": torch.tensor([2**62]),
    "largest": torch.tensor([torch.finfo(torch.float32).max]),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_first_not_finite_names_the_tensor(dtype, bad):
    tensor = torch.ones(2, 500, dtype=dtype)
    tensor[1, 77] = bad

    assert first_not_finite({**GOOD, "bad": tensor, "later": tensor}) == "bad"


def test_first_not_finite_is_empty_where_all_are_finite():
    assert not first_not_finite(GOOD)
    assert not first_not_finite({})


@pytest.mark.parametrize(
    ("value", "name"), [(65504.0, ""), (-65504.0, ""), (7e4, "w"), (-7e4, "w")]
)
def test_first_not_finite_measures_by_another_precision(value, name):
    tensors = {"w": torch.tensor([0.0, value])}

    assert first_not_finite(tensors, limit=torch.finfo(torch.float16).max) == name


@pytest.mark.parametrize(
    ("files", "where"),
    [
        pytest.param({"model.safetensors": ""}, " of model.safetensors;", id="one file"),
        pytest.param(
            {"model.safetensors.index.json": json.dumps({"weight_map": {"head": "two"}})},
            " of two;",
            id="several",
        ),
        pytest.param({}, ";", id="a name on the Hub"),
    ],
)
def test_objection_to_model_names_tensor_and_file(tmp_path, files, where):
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    found = objection_to_model(str(tmp_path), {"head": torch.tensor([math.nan])})

    assert found.startswith(
        f"model {tmp_path} holds values that are not finite: tensor head{where}"
    )
