"""Credit: values per row from the rewards of a group. Estimators return values; core applies them to action tokens."""
