//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum, value_parser};

use crate::workload::Workload;

/// Measure a tenure coordinator under load
#[derive(Parser, Clone, Debug)]
#[command(name = "load", version, max_term_width = 100)]
pub struct Args {
    /// What to measure; `all` includes the long ones (held, start, churn), not those beside peers
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_values = ["acquire-release", "acquire-release-batch", "heartbeat", "heartbeat-batch", "contended"]
    )]
    pub workload: Vec<Workload>,
    /// The coordinator to measure. Default: start one for each workload
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// The program to start coordinators from. Default: `tenure` beside this program
    #[arg(long, value_name = "PATH")]
    pub tenure: Option<PathBuf>,
    /// The form of the output
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "table")]
    pub output: Format,
    /// Where the temporary stores live: disks differ. Default: ./target if it exists, else the
    /// system's temporary directory
    #[arg(long, value_name = "DIR")]
    pub data_root: Option<PathBuf>,
    /// Interleave each workload with a bare echo handler, and report the share of its rate
    #[arg(long)]
    pub echo: bool,
    /// Who takes turns with the coordinator in the workloads beside peers, besides the echoes
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',', conflicts_with = "server")]
    pub peers: Vec<Peer>,
    /// Interleave each timed workload with bare compare-and-set publishes to this NATS server, and report
    /// the share of their rate
    #[arg(long, value_name = "URL")]
    pub raw_nats: Option<String>,
    /// How often a timed workload is measured; the median counts
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// How long each round of a timed workload lasts
    #[arg(long, default_value_t = 4.0, value_parser = seconds)]
    pub seconds: f64,
    /// Connections (for fanout: subscribers), one run for each number given
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub connections: Vec<usize>,
    /// How many leases (heartbeat, held, expiry, start; beside peers: held meanwhile; sessions: of the one
    /// that ends) or ownership changes (fanout, churn)
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=100_000_000))]
    pub count: Option<u64>,
    /// How many distinct keys (acquire-release, contended, the same beside peers, churn), or sessions (sessions)
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=100_000_000))]
    pub keys: Option<u64>,
    /// Leases per request where a workload works in batches, or per session (sessions)
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(1..=1000))]
    pub batch: u32,
    /// The longest time that one counted phase may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 900.0, value_parser = seconds)]
    pub time_limit: f64,
    /// A setting for the coordinator that is started, as in `tenure serve --set`
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
    /// Start coordinators with an access file, and call with a token
    #[arg(long, conflicts_with = "server")]
    pub access: bool,
    /// Start coordinators that speak TLS; `openssl` makes their certificates
    #[arg(long, conflicts_with = "server")]
    pub tls: bool,
    /// Serve the yardsticks themselves, the durable one with a file in this directory (what `--echo` starts)
    #[arg(long, hide = true, value_name = "DIR")]
    pub echo_server: Option<PathBuf>,
}

/// Another server, which the tool starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// `redis-server` of the PATH, whose log is synced before each answer
    Redis,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A block for people per workload
    Table,
    /// One JSON object per workload and line
    Json,
    /// The same
    Jsonl,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=86_400.0).contains(&value) => Ok(value),
        _ => Err("a number of seconds between 0.1 and 86400".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_consistent_and_every_option_is_explained() {
        Args::command().debug_assert();
        for arg in Args::command().get_arguments() {
            assert!(arg.get_help().is_some(), "{}", arg.get_id());
        }
        let line = "load --workload all --output json --connections 4,8 --seconds 0.5 --set a.b=c";
        let args = Args::try_parse_from(line.split(' ')).unwrap();
        assert_eq!((args.connections, args.workload), (vec![4, 8], vec![Workload::All]));
        assert!(Args::try_parse_from(["load", "--seconds", "0"]).is_err());
        assert!(Args::try_parse_from(["load", "--tls", "--access"]).is_ok());
        let foreign = ["load", "--tls", "--server", "http://127.0.0.1:7373"];
        assert!(Args::try_parse_from(foreign).is_err(), "who starts it decides");
        let args = Args::try_parse_from(["load", "--peers", "redis"]).unwrap();
        assert_eq!(args.peers, [Peer::Redis]);
    }
}
