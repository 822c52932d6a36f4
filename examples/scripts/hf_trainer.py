"""The Trainer of Hugging Face with a tiny transformer: paceline launch --layout ww hf_trainer.py"""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments


class Sentences(Dataset):
    def __len__(self) -> int:
        return 256

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(5, 100, (16,), generator=generator)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": int(ids.sum() % 2)}


config = DistilBertConfig(vocab_size=100, dim=32, hidden_dim=64, n_heads=2, n_layers=2, max_position_embeddings=32)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=8,
        num_train_epochs=2,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        eval_strategy="epoch",
        logging_steps=10,
        disable_tqdm=True,
    )
    trainer = Trainer(
        DistilBertForSequenceClassification(config), arguments, train_dataset=Sentences(), eval_dataset=Sentences()
    )
    trainer.train()
