//! What the server uses of its host: memory and processor time; and that it saves nothing.
//!
//! `used_memory` is what keys and values that are present have, with the headers of their records:
//! exact in a small cache, from a sample in a large one, and never more than the chunks in use
//! have. Memory of the pool that holds no live object is not in it; `pool_used_bytes` in the
//! section `Atoll` has that too. `maxmemory` is the pool's capacity.
//!
//! `mem_fragmentation_bytes` is the memory of the pool that is in use and holds no live object:
//! metadata, and what is dead or free in chunks in use. `mem_fragmentation_ratio` is 1 plus its
//! part of the capacity: 1.5 says that half of the pool is lost to it. Redis divides what is
//! resident by what is used. Here the whole capacity may be resident from the start, and dead
//! memory is cleaned only once it is needed. Such a ratio of a nearly empty server would be
//! thousands.

use super::{Facts, Written, policy};
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes as Redis shows them to people.
fn human(bytes: u64) -> String {
    let (mut number, mut unit) = (bytes as f64, 0);
    while number >= 1024.0 && unit < 4 {
        (number, unit) = (number / 1024.0, unit + 1);
    }
    if unit == 0 { format!("{bytes}B") } else { format!("{number:.2}{}", ["", "K", "M", "G", "T"][unit]) }
}

/// A number of kibibytes from a file of the kernel, in bytes.
fn of_kernel(path: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_ascii_whitespace().find_map(|word| word.parse::<u64>().ok()).unwrap_or(0) << 10
}

fn part(of: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { of as f64 / all as f64 }
}

pub(super) fn memory(text: &mut String, &Facts { shared, instance, census, .. }: &Facts<'_>) -> Written {
    let sampled: u64 = census.iter().map(|count| count.bytes).sum();
    // A sample that meets one large value of few is far off.
    let pool_used = (shared.facts.used_bytes)();
    let used = sampled.min(pool_used);
    let peak = instance.memory_peak(used);
    let resident = of_kernel("/proc/self/status", "VmRSS:");
    let capacity_bytes = (shared.facts.capacity_bytes)();
    let (scripts, interpreters) = (instance.scripts.bytes() as u64, instance.scripts.lua_bytes() as u64);
    for (name, bytes) in [
        ("used_memory", used),
        ("used_memory_rss", resident),
        ("used_memory_peak", peak),
        ("total_system_memory", of_kernel("/proc/meminfo", "MemTotal:")),
        ("maxmemory", capacity_bytes),
        ("used_memory_scripts", scripts),
        ("used_memory_lua", interpreters),
        ("used_memory_vm_total", interpreters),
    ] {
        write!(text, "{name}:{bytes}\r\n{name}_human:{}\r\n", human(bytes))?;
    }
    write!(text, "used_memory_peak_perc:{:.2}%\r\n", part(used, peak) * 100.0)?;
    write!(text, "used_memory_overhead:0\r\nused_memory_startup:0\r\nused_memory_dataset:{used}\r\n")?;
    write!(text, "used_memory_dataset_perc:{:.2}%\r\n", if used == 0 { 0.0 } else { 100.0 })?;
    write!(text, "number_of_cached_scripts:{}\r\nnumber_of_functions:0\r\n", instance.scripts.count())?;
    // There are no functions.
    write!(text, "used_memory_vm_eval:{interpreters}\r\nused_memory_scripts_eval:{scripts}\r\n")?;
    write!(text, "number_of_libraries:0\r\nused_memory_vm_functions:0\r\nused_memory_functions:0\r\n")?;
    write!(text, "maxmemory_policy:{}\r\n", policy(shared.facts.experts.as_deref()))?;
    let lost = pool_used - used;
    write!(text, "mem_fragmentation_ratio:{:.2}\r\n", 1.0 + part(lost, capacity_bytes))?;
    write!(text, "mem_fragmentation_bytes:{lost}\r\n")?;
    for name in [
        "mem_not_counted_for_evict",
        "mem_replication_backlog",
        "mem_total_replication_buffers",
        "mem_clients_slaves",
        "mem_cluster_links",
        "mem_aof_buffer",
        "active_defrag_running",
        "lazyfree_pending_objects",
        "lazyfreed_objects",
    ] {
        write!(text, "{name}:0\r\n")?;
    }
    write!(text, "mem_clients_normal:{}\r\nmem_allocator:libc\r\n", instance.peers.memory_bytes())
}

pub(super) fn persistence(text: &mut String, &Facts { shared, .. }: &Facts<'_>) -> Written {
    let started = SystemTime::now().checked_sub(shared.started.elapsed());
    let started_s = started.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default().as_secs();
    write!(text, "loading:0\r\nasync_loading:0\r\nrdb_changes_since_last_save:0\r\nrdb_bgsave_in_progress:0\r\n")?;
    write!(text, "rdb_last_save_time:{started_s}\r\nrdb_last_bgsave_status:ok\r\nrdb_last_bgsave_time_sec:-1\r\n")?;
    write!(text, "rdb_current_bgsave_time_sec:-1\r\nrdb_saves:0\r\nrdb_last_cow_size:0\r\naof_enabled:0\r\n")?;
    write!(text, "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\naof_last_rewrite_time_sec:-1\r\n")?;
    write!(text, "aof_current_rewrite_time_sec:-1\r\naof_last_bgrewrite_status:ok\r\naof_rewrites:0\r\n")?;
    write!(text, "aof_last_write_status:ok\r\naof_last_cow_size:0\r\naof_rewrites_consecutive_failures:0\r\n")?;
    write!(text, "current_cow_peak:0\r\ncurrent_cow_size:0\r\ncurrent_cow_size_age:0\r\ncurrent_fork_perc:0.00\r\n")?;
    write!(text, "current_save_keys_processed:0\r\ncurrent_save_keys_total:0\r\n")?;
    write!(text, "rdb_last_load_keys_expired:0\r\nrdb_last_load_keys_loaded:0\r\n")?;
    write!(text, "module_fork_in_progress:0\r\nmodule_fork_last_cow_size:0\r\n")
}

/// Ticks of the kernel's clock for processes in a second, for every program.
const TICKS: f64 = 100.0;

/// Seconds that a thread or process has used: in the kernel, by itself, and so for its children.
pub(crate) fn seconds_used(path: &str) -> [f64; 4] {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // The name of the program, in brackets, may have blanks.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut ticks = fields.split_ascii_whitespace().skip(11).map(|field| field.parse::<f64>().unwrap_or(0.0) / TICKS);
    let mut next = || ticks.next().unwrap_or(0.0);
    let (user, system, children_user, children_system) = (next(), next(), next(), next());
    [system, user, children_system, children_user]
}

pub(super) fn cpu(text: &mut String, _: &Facts<'_>) -> Written {
    let [system, user, children_system, children_user] = seconds_used("/proc/self/stat");
    write!(text, "used_cpu_sys:{system:.6}\r\nused_cpu_user:{user:.6}\r\n")?;
    write!(text, "used_cpu_sys_children:{children_system:.6}\r\nused_cpu_user_children:{children_user:.6}\r\n")?;
    let [system, user, ..] = seconds_used("/proc/thread-self/stat");
    write!(text, "used_cpu_sys_main_thread:{system:.6}\r\nused_cpu_user_main_thread:{user:.6}\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_redis_shows_them() {
        let cases = [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (1_040_392, "1016.01K"), (7_438_336, "7.09M")];
        for (bytes, shown) in cases {
            assert_eq!(human(bytes), shown);
        }
        assert_eq!(human(25_276_502_016), "23.54G");
    }

    #[test]
    fn what_the_kernel_says_of_this_process_is_read() {
        assert!(of_kernel("/proc/self/status", "VmRSS:") > 100 << 10);
        let began = std::time::Instant::now();
        while seconds_used("/proc/self/stat")[1] == 0.0 {
            assert!(began.elapsed().as_secs() < 60);
        }
    }
}
