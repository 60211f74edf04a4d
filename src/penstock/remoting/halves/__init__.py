"""Half messages of transactions: kept, decided once, checked back, discarded."""
