# Completion of tenure for bash. `tenure complete` says what may stand at the cursor.
_tenure() {
    local line=${COMP_LINE:0:COMP_POINT} found
    local -a words
    COMPREPLY=()
    # Quoted words are left to bash.
    case $line in *[\'\"\\]*) compopt -o default; return ;; esac
    read -ra words <<< "$line"
    case $line in *[[:space:]]) words+=("") ;; esac
    if found=$(command tenure complete --form bash --breaks="$COMP_WORDBREAKS" -- "${words[@]}" 2> /dev/null); then
        local IFS=$'\n'
        COMPREPLY=($found)
    else
        compopt -o default
    fi
}
complete -F _tenure tenure
