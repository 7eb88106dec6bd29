"""Models of other people, as their authors published them, with the glue that decodes them."""
