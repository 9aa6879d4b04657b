//! The command that looks at a load.

use super::{LoadOptions, Statistics};
use crate::LabError;
use crate::output;
use crate::progress::Progress;

/// Look at a load: its operations, sizes, times to live, frequencies
#[derive(Clone, Debug, clap::Args)]
pub struct LoadCommand {
    #[command(flatten)]
    options: LoadOptions,
    /// List the loads that there are
    #[arg(long)]
    list: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl LoadCommand {
    /// Makes the load's requests and prints what they are like.
    pub fn run(self) -> Result<(), LabError> {
        if self.list {
            return self.list();
        }
        let load = self.options.open()?;
        let progress = Progress::new(load.requests(), "load");
        let statistics = Statistics::of(&*load, |made| progress.set(made));
        output::print(self.json, &statistics, |shown| shown.render());
        Ok(())
    }

    fn list(&self) -> Result<(), LabError> {
        let names = self.options.names()?;
        if self.json {
            let names: Vec<_> =
                names.iter().map(|(name, what)| serde_json::json!({"name": name, "what": what})).collect();
            println!("{}", serde_json::Value::from(names));
            return Ok(());
        }
        for (name, what) in names {
            println!("{name:<26}{what}");
        }
        println!("{:<26}Zipf's law over so many keys", "zipf:KEYS,THETA,REQUESTS");
        println!("{:<26}a trace, oracleGeneral or Twitter CSV, zstd or plain", "FILE");
        if self.options.traces.is_none() {
            println!("With --traces DIR also the traces of that folder, and twitter-1 to twitter-54.");
        }
        Ok(())
    }
}
