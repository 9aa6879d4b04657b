//! A trace as a load: the requests of a [`Trace`], by its clients in turn.
//!
//! The trace is read once and shared by all streams, at 40 bytes a request at most. Lengths of 4
//! GiB and more, and times to live above 136 years, are cut to what 32 bits hold. The cache is
//! empty at first.

use super::{Kind, Load, LoadOptions, Request, Stream, share};
use crate::LabError;
use crate::trace::{self, Trace, WHERE_TRACES_ARE};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const _: () = assert!(size_of::<Request>() <= 40);

/// What the files of a folder of traces end in; of two files with one name the first kind is taken,
/// since it has operations.
const ENDINGS: [&str; 4] = [".csv.zst", ".csv", ".oracleGeneral.zst", ".oracleGeneral"];

/// A trace that was read.
#[derive(Clone, Debug)]
pub struct Traced {
    name: String,
    requests: Arc<[Request]>,
}

impl Traced {
    /// The trace of that name in the folder of traces, if there is one, else the file or generated
    /// load that it names.
    pub(super) fn of(options: &LoadOptions) -> Result<Self, LabError> {
        let in_folder = options.traces.as_deref().and_then(|folder| find(folder, &options.name));
        let mut trace = match in_folder {
            Some(path) => Trace::open_file(&path)?,
            None if is_of_folder(&options.name) && options.traces.is_some() => {
                let folder = options.traces.as_deref().unwrap_or(Path::new("")).display();
                return Err(LabError::Options(format!("no trace {} in {folder}: {WHERE_TRACES_ARE}", options.name)));
            }
            None => Trace::open(&options.name, options.seed)?,
        };
        let (mut read, mut requests) = (trace::Request::default(), Vec::new());
        let most = options.requests.unwrap_or(u64::MAX);
        while (requests.len() as u64) < most && trace.read(&mut read)? {
            requests.push(request(&read));
        }
        Ok(Self { name: options.name.clone(), requests: requests.into() })
    }
}

/// Whether a name that no trace of the folder has can mean nothing else.
fn is_of_folder(name: &str) -> bool {
    !name.contains([':', '/', '.']) && !Path::new(name).exists()
}

fn request(read: &trace::Request) -> Request {
    Request {
        key: read.key_number(),
        time_ns: read.time_s * 1_000_000_000,
        key_bytes: read.key_bytes,
        value_bytes: u32::try_from(read.value_bytes).unwrap_or(u32::MAX),
        ttl_s: u32::try_from(read.ttl_s).unwrap_or(u32::MAX),
        keys: 1,
        kind: Kind::Plain(read.operation),
    }
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    ENDINGS.iter().map(|ending| folder.join(format!("{name}{ending}"))).find(|path| path.is_file())
}

/// The traces of `folder`, by name.
pub(super) fn names(folder: &Path) -> Result<Vec<(String, String)>, LabError> {
    let unreadable = |error: std::io::Error| LabError::Folder { path: folder.to_owned(), what: error.to_string() };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
        // Tables lie in the folder beside the traces, as plain CSV.
        let ending = ENDINGS.iter().find(|ending| file.ends_with(*ending) && **ending != ".csv");
        if let Some(ending) = ending {
            names.push((file[..file.len() - ending.len()].to_owned(), "a trace".to_owned()));
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

impl Load for Traced {
    fn what(&self) -> String {
        format!("the trace {}", self.name)
    }

    fn requests(&self) -> u64 {
        self.requests.len() as u64
    }

    fn preload(&self, client: u64, clients: u64) -> Stream {
        assert!(client < clients);
        Box::new(std::iter::empty())
    }

    fn stream(&self, client: u64, clients: u64) -> Stream {
        let requests = self.requests.clone();
        let count = share(requests.len() as u64, client, clients);
        Box::new((0..count).map(move |step| requests[(client + step * clients) as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn a_traces_name_finds_its_file_and_clients_take_its_requests_in_turn() {
        let Some(folder) = fixtures::traces() else { return };
        let options = LoadOptions { traces: Some(folder.clone()), ..LoadOptions::named("fixture_meta_kv") };
        let load = options.open().unwrap();
        assert_eq!(load.requests(), 1124);
        let mut streams: Vec<_> = (0..3).map(|client| load.stream(client, 3)).collect();
        let all: Vec<Request> = load.stream(0, 1).collect();
        for (index, request) in all.iter().enumerate() {
            assert_eq!(streams[index % 3].next().as_ref(), Some(request));
        }
        assert!(all.iter().any(|request| request.kind.name() == "delete" && request.ttl_s == 0));
        assert!(names(&folder).unwrap().iter().any(|(name, _)| name == "arc_oltp"));
    }

    #[test]
    fn a_trace_is_cut_at_the_requests_that_are_asked_for() {
        let options = LoadOptions { requests: Some(10), ..LoadOptions::named("zipf:100,1,1000") };
        assert_eq!(options.open().unwrap().requests(), 10);
    }
}
