message("molspec: compiles what changed in csrc; this may take a minute")
