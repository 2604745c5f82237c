"""A tokenizer with one token per character, and one for each mark of a tool's call."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hetrl_runtime.rollout.tool_calls import CALL, CALL_END, RESULT, RESULT_END

PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"
_SPECIAL = (PAD, EOS, UNKNOWN)
_CHARACTERS = ("\n", *(chr(code) for code in range(ord(" "), ord("~") + 1)))


def make_tokenizer(*, max_tokens: int) -> PreTrainedTokenizerFast:
    """Make a tokenizer of printable ASCII; anything else becomes ``<unk>``."""
    vocabulary = {token: index for index, token in enumerate((*_SPECIAL, *_CHARACTERS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_tokens(
        [AddedToken(mark, normalized=False) for mark in (CALL, CALL_END, RESULT, RESULT_END)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        padding_side="left",
        model_max_length=max_tokens,
        clean_up_tokenization_spaces=False,
    )
