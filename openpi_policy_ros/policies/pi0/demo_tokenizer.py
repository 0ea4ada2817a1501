# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A small tokenizer of our own, for checkpoints made here.

PaliGemma's is gated on the hub, so a demo cannot ship it. This one keeps what π0 relies on: the
special ids, spaces written as ▁, and the newline's id. Common words are one token, other ASCII text
one token per character or pair, anything else one per UTF-8 byte: no text is unknown. A digit is
always a token of its own, as PaliGemma's are, so that the state in a π0.5 text costs what it does
there: up to four tokens a number, 152 of the 200 for the widest state and five words.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

SPECIALS = ('<pad>', '<eos>', '<bos>', '<unk>')
NEWLINE_ID = 108
MAX_ENTRIES = 1024

# Unigram scores: the segmentation with the largest sum wins, so that one word beats its parts.
_WORD, _PAIR, _CHARACTER, _BYTE = -8.0, -10.0, -12.0, -20.0

_WORDS = """
a about above across after again align all an and any apple arm at away back bag ball banana
basket beside between bin bit black block blue board book bottle bottom bowl box brown button by
cabinet can carefully center clean clockwise close closed cloth coffee cold corner counter cube
cup cupboard cut dish do door down drawer drop each edge empty end every fill first flat flip
floor fold food fork forward from front fruit fully gently get glass grab grasp gray green grip
gripper ground hand handle hang hold hot in insert inside into it item keep kettle key kitchen
knife knob large left lemon lid lift light line long lower make marker middle milk mouse move mug
near next object of off on one onto open orange other out over oven paper part pen pencil pick
pile pin pink place plate plug point position pot pour press pull purple push put rack reach red
release remove right ring rotate sauce screw second shake shelf shirt side sink slide slowly small
sort spoon spray square stack start stop stove switch table take tape tea that the them then third
three tip to tomato top touch towel toy transfer tray triangle turn two under until up upright
upside use wait wash water white wipe with wrench yellow your zero
""".split()  # noqa: SIM905

_PAIRS = """
th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me
de hi ri ro ic ne ea ra ce li ch ll be ma si om ur ca el ta la ns di fo ho pe ec pr no ct us ac ot
il tr ly nc et ut ss so rs un lo wa ge ie wh ee wi em ad ol rt po we na ul ni ts mo ow pa im mi ai
sh ir su
""".split()  # noqa: SIM905


def build_tokenizer() -> Tokenizer:
    """Return the tokenizer; always the same one."""
    return make_tokenizer(SPECIALS, '<bos> $A', '<bos> $A $B', ('<bos>', 2))


def make_tokenizer(
    specials: tuple[str, ...],
    single: str,
    pair: str,
    added: tuple[str, int],
    words: Sequence[str] = (),
) -> Tokenizer:
    """Return a tokenizer of ``MAX_ENTRIES`` entries with special tokens of another model's.

    Args:
        specials: the first entries; the fourth is the unknown token.
        single: template of one text, as ``tokenizers`` writes it.
        pair: template of two.
        added: the special token that the templates add, and its id.
        words: that are one token each, before the common ones.

    """
    tokenizer = Tokenizer(models.Unigram(_entries(specials, words), unk_id=3, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(' ', '▁')
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace('▁', ' '), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[added]
    )
    tokenizer.add_special_tokens(
        [AddedToken(text, normalized=False, special=True) for text in specials]
    )
    return tokenizer


def _entries(specials: tuple[str, ...], words: Sequence[str]) -> list[tuple[str, float]]:
    printable = [c for c in map(chr, range(32, 127)) if c != ' ']
    entries = [(text, 0.0) for text in specials]
    entries += [(text, _CHARACTER) for text in ('▁', *printable)]
    entries += [(f'<unused{index}>', _BYTE) for index in range(NEWLINE_ID - len(entries))]
    entries.append(('\n', _CHARACTER))
    entries += [(f'<0x{value:02X}>', _BYTE) for value in range(256)]
    # A word is written with the space before it, and without where a text starts with it.
    known_words = [*words, *_WORDS]
    pieces = [(f'▁{word}', _WORD) for word in known_words]
    pieces += [(word, _WORD) for word in known_words]
    pieces += [(pair, _PAIR) for pair in _PAIRS]
    pieces += [(word.capitalize(), _WORD) for word in known_words]
    known = {text for text, _ in entries}
    for text, score in pieces:
        if text not in known and len(entries) < MAX_ENTRIES:
            entries.append((text, score))
            known.add(text)
    return entries
