"""What a broker asks another broker: each question is a class with its answer and its bounds."""
