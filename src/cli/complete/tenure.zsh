#compdef tenure
# Completion of tenure for zsh. `tenure complete` says what may stand at the cursor.
_tenure() {
    local found
    local -a lines
    if found=$(command tenure complete --form zsh -- "${(@)words[1,CURRENT-1]}" "$PREFIX" 2> /dev/null); then
        if [[ -n $found ]]; then
            lines=("${(@f)found}")
            _describe 'tenure' lines
        fi
    else
        _files
    fi
}

if [ "$funcstack[1]" = "_tenure" ]; then
    _tenure "$@"
else
    compdef _tenure tenure
fi
