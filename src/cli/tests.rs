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
        "run --key k --owner o --ttl 15s --grace 5s --wait 30s --value v -- cmd -x --key y",
        "run --any a,b --wait forever -- cmd",
        "run --pool p -- cmd",
        "work --pool p -- cmd",
        "work --pool p --prefix x --capacity 3 --owner o --weight 2 --ttl 5s --grace 1s --restart never -- cmd",
        "work --pool p --keys a,b --restart on-failure --output json -- cmd",
        "work --pool p --keys-from - -- cmd",
        "mcp",
        "mcp --owner w --ttl 30s --token-file f",
        "acquire jobs/1 --owner w --ttl 15s --wait 5s --value v --reclaim --request-id r",
        "acquire jobs/1 --wait forever",
        "acquire --any a,b --any c --count 2 --order sticky --wait forever",
        "acquire --prefix jobs/",
        "release jobs/1 --lease-id 00ff --value v",
        "get jobs/1 --output json",
        "--server http://h:1 --output jsonl ls --prefix a --owner o --state held --limit 5 --after c",
        "ls --all",
        "ls --session 00ff",
        "acquire jobs/1 --session 00ff",
        "fence-skip jobs/1 --reason scrapped",
        "sessions",
        "sessions --owner w",
        "pools",
        "pools shards --output json",
        "sessions destroy 00ff",
        "sessions drain 00ff",
        "check jobs/1 --token 7",
        "watch --prefix a --owner o --types granted,released --after 1-0",
        "watch jobs/1 --until-free --timeout 10s",
        "revoke jobs/1 --reason stuck --immediately",
        "nodes --output json",
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
        "work -- cmd",
        "work --pool p --keys a --prefix x -- cmd",
        "work --pool p --capacity 0 -- cmd",
        "mcp k",
        "mcp --ttl 30",
        "acquire --any a --prefix b",
        "acquire a --count 2",
        "acquire --any a --reclaim",
        "acquire --any a --count 0",
        "acquire a --ttl 15",
        "acquire a --wait never",
        "acquire a --ttl -1s",
        "release a",
        "ls --limit 0",
        "ls --limit 1001",
        "ls --all --limit 5",
        "check a",
        "check a --token -1",
        "watch --until-free",
        "watch a --prefix b",
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
