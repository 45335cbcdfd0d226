//! `bench all`: one folder with a folder for each scenario, resumed where it was left.
//!
//! **Invariant:** a scenario counts as done only if its result is whole and holds no rejected sample.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::error::{Context, Error};
use super::kit::Kit;
use super::options::Options;
use super::program;
use super::scenario;

/// Letters of a reason in the index; all of it is where the scenario was run.
const NOTE: usize = 200;

/// A run of all scenarios, done or in part.
#[derive(Debug)]
pub struct All {
    folder: PathBuf,
    /// Scenarios of this run, in order: name, seconds, and why it failed where it did.
    done: Vec<(String, Duration, Option<String>)>,
}

impl All {
    /// A new run below the target folder, or the one in `resumed`.
    ///
    /// # Errors
    /// Where the folder cannot be made, or there is none to resume.
    pub fn open(kit: &Kit, resumed: Option<&Path>) -> Result<Self, Error> {
        let folder = match resumed {
            Some(folder) if folder.is_dir() => folder.to_owned(),
            Some(folder) => {
                return Err(Error::Usage(format!("--resume {}: no such folder", folder.display())));
            }
            None => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
                kit.target.join("bench/results").join(format!("all-{since}-{}", std::process::id()))
            }
        };
        fs::create_dir_all(&folder).context(|| format!("cannot make {}", folder.display()))?;
        // Absolute: what is run later has another working folder.
        let folder = folder.canonicalize().context(|| format!("cannot find {}", folder.display()))?;
        Ok(Self { folder, done: Vec::new() })
    }

    /// The folder of all.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs every scenario that is not done, or of those in `only` alone where there are any, and tells how long it took.
    /// A failed one does not stop the rest.
    ///
    /// # Errors
    /// An interrupt; a name that is no scenario; or at the end, where a scenario failed.
    pub fn run(&mut self, only: &[String], options: &Options, kit: &Kit) -> Result<(), Error> {
        let options = Options { into: Some(self.folder.clone()), ..options.clone() };
        let names = scenario::names(&kit.root)?;
        if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
            return Err(Error::Usage(format!("no scenario `{unknown}`; there are: {}", names.join(", "))));
        }
        // Two parts at once would measure each other.
        let guard = self.folder.join("lock");
        let doing = || format!("cannot lock {}", guard.display());
        let guarded = fs::File::create(&guard).context(doing)?;
        if guarded.try_lock().is_err() {
            return Err(Error::Usage(format!("another run is under way in {}", self.folder.display())));
        }
        let begin = Instant::now();
        let wanted = names.iter().enumerate().filter(|(_, name)| only.is_empty() || only.contains(name));
        for (number, name) in wanted {
            if is_done(&self.folder.join(name), options.is_quick) {
                println!("bench: {name}: done before");
                continue;
            }
            println!("\nbench: {} of {}: {name}", number + 1, names.len());
            let started = Instant::now();
            let failed = match super::run(name, &options, kit) {
                Ok(()) => None,
                Err(Error::Interrupted) => {
                    println!("bench: go on with `--resume {}`", self.folder.display());
                    return Err(Error::Interrupted);
                }
                Err(error) => Some(error.to_string()),
            };
            if let Some(why) = &failed {
                println!("bench: {name}: FAILED: {why}");
            }
            self.done.push((name.clone(), started.elapsed(), failed));
            self.write_index(&names)?;
        }
        println!("\nbench: all took {:.0} s; {}", begin.elapsed().as_secs_f64(), self.folder.display());
        let failed: Vec<&str> =
            self.done.iter().filter(|(_, _, why)| why.is_some()).map(|(name, _, _)| name.as_str()).collect();
        if failed.is_empty() { Ok(()) } else { Err(Error::failed(format!("failed: {}", failed.join(", ")))) }
    }

    fn write_index(&self, names: &[String]) -> Result<(), Error> {
        let mut whole = 0.0;
        let mut text = String::from(
            "| scenario | rows | without figures | bars kept | seconds | commit | |\n|---|---:|---:|---:|---:|---|---|\n",
        );
        for name in names {
            let result = saved(&self.folder.join(name)).unwrap_or_default();
            let list = |key: &str| result[key].as_array().cloned().unwrap_or_default();
            let (rows, bars) = (list("rows"), list("bars"));
            let bare = rows.iter().filter(|row| row["state"] != "measured").count();
            let judged = bars.iter().filter(|bar| bar["is_kept"].is_boolean()).count();
            let kept = bars.iter().filter(|bar| bar["is_kept"] == true).count();
            let own = self.done.iter().find(|(done, _, _)| done == name);
            // A run may be resumed on another commit.
            let commit: String =
                result["machine"]["commit"].as_str().unwrap_or("-").chars().take(9).collect();
            // One that was done before this run tells its own time.
            let seconds = own.map(|(_, took, _)| took.as_secs_f64()).or_else(|| result["took_s"].as_f64());
            whole += seconds.unwrap_or(0.0);
            let seconds = seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.0}"));
            let note =
                own.and_then(|(_, _, why)| why.as_deref()).unwrap_or_default().replace(['|', '\n'], " ");
            let note: String = note.chars().take(NOTE).collect();
            text.push_str(&format!(
                "| [{name}]({name}/report.md) | {} | {bare} | {kept} of {judged} | {seconds} | {commit} | {note} |\n",
                rows.len()
            ));
        }
        let text = format!("# All scenarios\n\nThey took {whole:.0} s together.\n\n{text}");
        super::run::write_whole(&self.folder.join("index.md"), &text)
    }
}

fn saved(folder: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(folder.join("result.json")).ok()?).ok()
}

/// Whether a folder holds a whole result of that kind of run.
fn is_done(folder: &Path, is_quick: bool) -> bool {
    saved(folder).is_some_and(|result| {
        let has_rejected = result["rejected"].as_array().is_none_or(|rejected| !rejected.is_empty());
        !has_rejected && result["is_quick"] == is_quick
    })
}

/// Packs a folder into one file beside it.
///
/// # Errors
/// Where `tar` is not there or fails, for a full disk among others; no half file is left then.
pub fn archive(folder: &Path) -> Result<PathBuf, Error> {
    let mut file = folder.to_owned().into_os_string();
    file.push(".tar.gz");
    let file = PathBuf::from(file);
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(Error::failed(format!("{} cannot be packed", folder.display())));
    };
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(&file).arg("-C").arg(parent).arg(name);
    program::output(&mut tar).inspect_err(|_| drop(fs::remove_file(&file)))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_result_of_the_same_kind_without_a_rejected_sample_is_done() {
        let folder = std::env::temp_dir().join(format!("oxb-all-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (text, is_expected) in [
            (r#"{"is_quick":false,"rejected":[]}"#, true),
            (r#"{"is_quick":true,"rejected":[]}"#, false),
            (r#"{"is_quick":false,"rejected":["hello"]}"#, false),
            (r#"{"is_quick":false"#, false),
        ] {
            fs::write(folder.join("result.json"), text).unwrap();
            assert_eq!(is_done(&folder, false), is_expected, "{text}");
        }
        fs::remove_dir_all(&folder).unwrap();
        assert!(!is_done(&folder, false));
    }
}
