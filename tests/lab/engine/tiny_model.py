# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a tiny Llama with random weights in four safetensors shards: `python tiny_model.py FOLDER`.

Run by the Python of the real vLLM's environment, which has torch, tokenizers and safetensors. A head
dimension of 16 is refused by vLLM's attention for the CPU, 64 is not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Dict

import torch  # type: ignore[import-not-found]
from safetensors.torch import save_file  # type: ignore[import-not-found]
from tokenizers import (  # type: ignore[import-not-found]
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    trainers,
)

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD, INNER, WORDS, SHARDS = 256, 2, 4, 2, 64, 512, 1024, 4
CONFIG: Dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD,
    "vocab_size": WORDS,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 1,
}
CHAT = "{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}<assistant>"


def weights() -> Dict[str, torch.Tensor]:
    torch.manual_seed(4)
    shapes = {
        "model.embed_tokens.weight": (WORDS, HIDDEN),
        "lm_head.weight": (WORDS, HIDDEN),
        "model.norm.weight": (HIDDEN,),
    }
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        shapes[at + "self_attn.q_proj.weight"] = (HEADS * HEAD, HIDDEN)
        shapes[at + "self_attn.k_proj.weight"] = (KV_HEADS * HEAD, HIDDEN)
        shapes[at + "self_attn.v_proj.weight"] = (KV_HEADS * HEAD, HIDDEN)
        shapes[at + "self_attn.o_proj.weight"] = (HIDDEN, HEADS * HEAD)
        shapes[at + "mlp.gate_proj.weight"] = (INNER, HIDDEN)
        shapes[at + "mlp.up_proj.weight"] = (INNER, HIDDEN)
        shapes[at + "mlp.down_proj.weight"] = (HIDDEN, INNER)
        shapes[at + "input_layernorm.weight"] = (HIDDEN,)
        shapes[at + "post_attention_layernorm.weight"] = (HIDDEN,)
    return {name: torch.randn(shape, dtype=torch.bfloat16) * 0.02 for name, shape in shapes.items()}


def save_weights(folder: Path) -> None:
    tensors = weights()
    index: Dict[str, str] = {}
    for number in range(SHARDS):
        name = f"model-{number + 1:05d}-of-{SHARDS:05d}.safetensors"
        part = {key: tensors[key] for key in sorted(tensors)[number::SHARDS]}
        save_file(part, str(folder / name), metadata={"format": "pt"})
        index.update(dict.fromkeys(part, name))
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": size}, "weight_map": index}, indent=1)
    )


def save_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=WORDS,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(["the answer of a tiny model", CHAT], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": CHAT}, indent=1))


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_tokenizer(folder)
    save_weights(folder)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1))  # last: its presence says "complete"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
