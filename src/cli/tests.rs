use clap::CommandFactory;

use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("tenure").chain(line.split_whitespace()))
}

#[test]
fn the_definition_is_consistent_and_every_command_is_explained() {
    Cli::command().debug_assert();
    let mut root = Cli::command();
    root.build();
    for command in root.get_subcommands() {
        assert!(command.get_about().is_some(), "{} has no help", command.get_name());
        for arg in command.get_arguments() {
            assert!(arg.get_help().is_some(), "{} {}", command.get_name(), arg.get_id());
        }
    }
}

#[test]
fn what_the_contract_names_can_be_written() {
    for line in [
        "serve --config f --listen 127.0.0.1:0 --data-dir d --store embedded --set a.b=c --set d.e=f",
        "demo",
        "demo --keep",
        "run --key k --owner o --ttl 15s --grace 5s --wait 30s --value v -- cmd -x --key y",
        "run --any a,b --wait forever -- cmd",
        "run --pool p -- cmd",
        "lock k -- cmd -x",
        "lock -n 3 k --wait forever --ttl 5s --grace 1s --owner o -- cmd",
        "lock k --value v --min-hold 1m -- cmd",
        "work --pool p -- cmd",
        "work --pool p --prefix x --capacity 3 --owner o --weight 2 --ttl 5s --grace 1s --restart never -- cmd",
        "work --pool p --keys a,b --restart on-failure --output json -- cmd",
        "work --pool p --keys-from - -- cmd",
        "mcp",
        "mcp --owner w --ttl 30s --token-file f",
        "acquire jobs/1 --owner w --ttl 15s --wait 5s --value v --reclaim --request-id r",
        "acquire jobs/1 --wait forever --min-hold 1m",
        "acquire --any a,b --any c --count 2 --order sticky --wait forever",
        "acquire --prefix jobs/",
        "acquire jobs/1 -o lease-id",
        "heartbeat jobs/1 --lease-id 00ff",
        "heartbeat jobs/1 --lease-id 00ff --value v --ttl 5s -o token",
        "release jobs/1 --lease-id 00ff --value v",
        "get jobs/1 --output json",
        "--server http://h:1 --output jsonl ls --prefix a --owner o --state held --limit 5 --after c",
        "ls --all",
        "ls -o wide --all-states --pool p --sort held-for --reverse --limit 5",
        "ls -w",
        "ls -w=5s --prefix a",
        "ls --watch=500ms",
        "--color always ls",
        "ls -ojson --color=never",
        "--context prod ls",
        "ls --session 00ff",
        "acquire jobs/1 --session 00ff",
        "runbook",
        "runbook TenureChurnHigh",
        "fence-skip jobs/1 --reason scrapped",
        "fence-retry jobs/1 --reason repaired",
        "fence-retry --prefix jobs/ --plugin power --reason repaired",
        "fence-retry --plugin power --reason repaired",
        "sessions",
        "sessions --owner w",
        "sessions open --owner w --ttl 5s -o session-id",
        "sessions open --pool p --weight 2 --capacity 3 --lock-delay 5s --delete-values",
        "sessions heartbeat 00ff --progress half",
        "pools",
        "pools shards --output json",
        "pools shards --plan",
        "sessions destroy 00ff",
        "sessions drain 00ff",
        "check jobs/1 --token 7",
        "watch --prefix a --owner o --types granted,released --after 1-0",
        "watch jobs/1 --until-free --timeout 10s",
        "watch --since 10m -o wide",
        "watch --since 2026-11-22T02:00:00Z --last 20 --types granted",
        "revoke jobs/1 --reason stuck --immediately",
        "drain w",
        "pin jobs/1",
        "pin jobs/1 --by maintenance",
        "unpin jobs/1 --by maintenance",
        "nodes --output json",
        "nodes --all",
        "status",
        "status --fail-on critical --output json",
        "top",
        "top --by owners --window 60m --cause expired --sort name --reverse --interval 500ms",
        "top --once --prefix jobs/ --limit 5 --output jsonl",
        "history jobs/1 --limit 100 -o wide",
        "ready",
        "ready --timeout 500ms --output json",
        "transfer jobs/1 --lease-id 00ff --to w2 --offer 10s --value v",
        "transfer jobs/1 --lease-id 00ff --value v",
        "backup --store nats --set store.nats.replicas=1",
        "backup --data-dir d --file f --skip-unreadable",
        "restore --data-dir d --file f --raise-epoch",
        "restore --input f --raise-epoch --output json",
        "restore --raise-epoch --epoch 7",
        "secret rotate --data-dir d --raise-epoch --epoch 7",
        "secret rotate",
        "store verify --config f --output json",
        "store verify --store nats --set store.nats.replicas=1",
        "audit verify audit.log audit.log.1 --output json",
        "config check --config f",
        "config show --origin",
        "guard --key k --owner o -r 3s -f 3 -c 2 --healthcheck h --activate a --deactivate d --fence f",
        "--token-file f --plaintext-token ls",
        "run --key k --token-file f -- cmd",
        "token new",
        "token new --json",
        "token new --file f --output json",
        "access init",
        "access init f --config c",
        "access check f",
        "access can w hold jobs/1 --owner w/1 --file f",
        "access can w observe",
        "context ls",
        "context use prod",
        "context use --none",
        "context show",
        "context show prod -o json",
        "--server https://a,https://b --ca c --token-file f context add prod",
        "complete --form bash --breaks=: -- tenure get --owner w -- ",
        "completions bash",
        "man --dir d",
    ] {
        assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for line in [
        "",
        "acquire",
        "acquire a --any b",
        "run -- cmd",
        "run --key k",
        "run --key k cmd",
        "run --key k --pool p -- cmd",
        "run --any a --value v -- cmd",
        "run --key k --wait never -- cmd",
        "lock -- cmd",
        "lock k cmd",
        "lock -n 0 k -- cmd",
        "lock -n 2 k --value v -- cmd",
        "heartbeat k",
        "heartbeat --lease-id 00ff",
        "sessions open --weight 2",
        "sessions open --weight 0 --pool p",
        "drain",
        "pin",
        "pin a b",
        "work -- cmd",
        "work --pool p --keys a --prefix x -- cmd",
        "work --pool p --capacity 0 -- cmd",
        "mcp k",
        "mcp --ttl 30",
        "acquire --any a --prefix b",
        "acquire a --count 2",
        "acquire --any a --reclaim",
        "acquire --any a --min-hold 1s",
        "lock -n 3 k --min-hold 1s -- cmd",
        "acquire --any a --count 0",
        "acquire a --ttl 15",
        "acquire a --wait never",
        "acquire a --ttl -1s",
        "release a",
        "ls --limit 0",
        "ls --limit 1001",
        "ls --all --limit 5",
        "ls --state frozen",
        "ls --state held --all-states",
        "ls --sort key --after a",
        "ls --reverse",
        "ls --watch=5",
        "ls --color sometimes",
        "check a",
        "check a --token -1",
        "watch --until-free",
        "watch a --prefix b",
        "watch --since yesterday",
        "watch --since 10m --after 0",
        "watch a --until-free --last 5",
        "context",
        "context use",
        "context use prod --none",
        "context add",
        "complete --form bash",
        "ready --timeout 5",
        "ready now",
        "revoke a",
        "config",
        "restore --epoch 7",
        "secret",
        "store",
        "store verify f",
        "audit verify",
        "audit verify a --head 7",
        "secret rotate --epoch 7",
        "get a b",
        "demo 3",
        "demo --keep 3",
        "token",
        "access",
        "access can w",
        "access can w fly jobs/1",
        "--output yaml ls",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn completions_and_manual_pages_name_every_command() {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let dir = tempfile::tempdir().unwrap();
    clap_mangen::generate_to(Cli::command(), dir.path()).unwrap();
    // Hidden commands are started by tenure itself, and have no manual page.
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        let written = name.replace('-', "\\-");
        assert!(page.contains(&format!("tenure\\-{written}(1)")), "{name} is not in the manual");
        assert!(dir.path().join(format!("tenure-{name}.1")).exists(), "{name} has no page");
    }
}

#[test]
fn a_field_is_printed_by_the_commands_that_have_it() {
    for (line, prints) in [
        ("acquire k -o lease-id", true),
        ("acquire k -o token", true),
        ("acquire k -o session-id", false),
        ("ls -o key", true),
        ("ls -o lease-id", false),
        ("get k -o token", true),
        ("sessions open -o session-id", true),
        ("sessions -o session-id", false),
        ("release k --lease-id 00ff -o key", false),
        ("release k --lease-id 00ff -o wide", true),
        ("nodes -o json", true),
    ] {
        let cli = parse(line).unwrap();
        assert_eq!(cli.command.check(cli.output).is_ok(), prints, "{line}");
    }
}

#[test]
fn the_format_of_faulty_arguments_is_found() {
    let found = |line: &str| asked_for(line.split(' ').map(OsString::from));
    for line in
        ["x -o json", "x -ojson", "x -o=json", "--output json x", "--output=json", "-o JSON"]
    {
        assert_eq!(found(line), Some(Format::Json), "{line}");
    }
    for line in ["x", "x -- -o json", "x --output", "x -o yaml", "x --outputs json"] {
        assert_eq!(found(line), None, "{line}");
    }
}

/// The servers of a command line, in an environment without variables for them.
fn servers(line: &str) -> Result<ServerArgs, Failure> {
    let line = std::iter::once("tenure").chain(line.split_whitespace());
    let matches = Cli::command().try_get_matches_from(line).unwrap();
    Cli::from_arg_matches(&matches).unwrap().servers.settled(&matches)
}

#[test]
fn a_context_on_the_command_line_stands_alone_or_with_other_options() {
    assert!(servers("--context a --server b:1 ls").is_err());
    assert!(servers("ls --context a --server b:1").is_err());
    assert_eq!(servers("ls --context a --ca c").unwrap().context.as_deref(), Some("a"));
    assert_eq!(servers("ls --server b:1").unwrap().server.as_deref(), Some("b:1"));
}
