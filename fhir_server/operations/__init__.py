"""Operations: what is asked for by a name that begins with `$`."""
