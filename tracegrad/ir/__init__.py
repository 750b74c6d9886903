"""What a program is: types, values and operations, their text, and the record that defines an op."""
