"""Writes a language model of some 90 KB that knows nothing: a llama of one layer, in the GGUF format.

Its weights are random, so its text is too; a server that holds it to a schema makes it write JSON that fits.
Three things are not left to chance. It writes ASCII alone. It prefers a few letters, so that the names in a plan
meet: duplicates, dependencies and cycles all come up. And it likes to close what it opened, so that texts end.
"""

import random
import struct
from array import array

WIDTH, HEADS, INNER, CONTEXT = 32, 2, 32, 32768
UNKNOWN, BEGIN, END, FIRST_BYTE = 0, 1, 2, 3
VOCABULARY = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
# What the format calls unknown, control and byte.
KINDS = [2, 3, 3] + [6] * 256
TEMPLATE = "{% for message in messages %}[{{ message.role }}]\n{{ message.content }}\n{% endfor %}[assistant]\n"
U32, I32, F32, BOOL, STRING, LIST = 4, 5, 6, 7, 8, 9
# By how much a token is liked beyond chance.
LIKED = {"{": 0.75, '"': 1.0, ",": 0.75, "]": 0.6, "[": 0.6, "n": 0.6, "a": 1.0, "b": 0.9}


def write(path, seed=0):
    chance = random.Random(seed)
    tensors = list(make_tensors(chance))
    facts = [
        ("general.architecture", STRING, "llama"),
        ("llama.context_length", U32, CONTEXT),
        ("llama.embedding_length", U32, WIDTH),
        ("llama.block_count", U32, 1),
        ("llama.feed_forward_length", U32, INNER),
        ("llama.attention.head_count", U32, HEADS),
        ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        ("llama.rope.dimension_count", U32, WIDTH // HEADS),
        ("llama.vocab_size", U32, len(VOCABULARY)),
        ("tokenizer.ggml.model", STRING, "llama"),
        ("tokenizer.ggml.tokens", LIST, (STRING, VOCABULARY)),
        ("tokenizer.ggml.scores", LIST, (F32, [0.0] * len(VOCABULARY))),
        ("tokenizer.ggml.token_type", LIST, (I32, KINDS)),
        ("tokenizer.ggml.bos_token_id", U32, BEGIN),
        ("tokenizer.ggml.eos_token_id", U32, END),
        ("tokenizer.ggml.unknown_token_id", U32, UNKNOWN),
        ("tokenizer.ggml.add_space_prefix", BOOL, False),
        ("tokenizer.chat_template", STRING, TEMPLATE),
    ]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts))
    for name, kind, value in facts:
        head += packed(STRING, name) + struct.pack("<I", kind) + packed(kind, value)
    place = 0
    for name, shape, numbers in tensors:
        head += packed(STRING, name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}QIQ", *shape, 0, place)
        place += len(numbers) * 4
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32))
        for _, _, numbers in tensors:
            # Every size is a multiple of 32 numbers, so each begins where the format wants it.
            file.write(array("f", numbers).tobytes())


def make_tensors(chance):
    """Names, shapes with the fastest dimension first, and numbers."""

    def matrix(width, height, spread):
        return (width, height), [chance.gauss(0, spread) for _ in range(width * height)]

    size = len(VOCABULARY)
    words = [chance.gauss(0, 1) for _ in range(WIDTH * size)]
    output = [chance.gauss(0, 0.3) for _ in range(WIDTH * size)]
    for token in range(size):
        # The first feature is the same for all tokens: what the output makes of it is liked or disliked everywhere.
        words[token * WIDTH] = 8.0
        output[token * WIDTH] = liking(token)
    yield "token_embd.weight", (WIDTH, size), words
    yield "output.weight", (WIDTH, size), output
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        yield f"{name}.weight", (WIDTH,), [1.0] * WIDTH
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        yield f"blk.0.{name}.weight", *matrix(WIDTH, WIDTH, 0.1)
    for name in ("ffn_gate", "ffn_up"):
        yield f"blk.0.{name}.weight", *matrix(WIDTH, INNER, 0.1)
    yield "blk.0.ffn_down.weight", *matrix(INNER, WIDTH, 0.1)


def liking(token):
    if token == END:
        return 1.0
    byte = token - FIRST_BYTE
    if not 0x20 < byte < 0x7F:
        return -9.0
    return LIKED.get(chr(byte), 0.0)


def packed(kind, value):
    if kind == STRING:
        value = value.encode()
        return struct.pack("<Q", len(value)) + value
    if kind == LIST:
        of, values = value
        return struct.pack("<IQ", of, len(values)) + b"".join(packed(of, it) for it in values)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], value)
