# Read by the other scripts. The owner becomes a part of a file's name, so it must not lead elsewhere.
LC_ALL=C
case $TENURE_OWNER in
  '' | -* | *[!A-Za-z0-9._-]*)
    echo "the owner has other characters than A-Z, a-z, 0-9, ., _ and -, or begins with -: choose another --owner" >&2
    exit 1
    ;;
esac
