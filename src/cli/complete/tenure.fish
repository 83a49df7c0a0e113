# Completion of tenure for fish. `tenure complete` says what may stand at the cursor.
function __tenure_complete
    set -l words (commandline -opc) (commandline -ct)
    command tenure complete --form fish -- $words 2>/dev/null
    or __fish_complete_path (commandline -ct)
end

complete -c tenure -f -a '(__tenure_complete)'
