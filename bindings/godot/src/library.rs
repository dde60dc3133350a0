//! libatelico: where it is, and its functions. What they do is in atelico.h.

use std::ffi::{c_char, c_float, c_void};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::{paths, settings};

/// The interface of atelico.h this was written for.
const ABI_VERSION: i32 = 1;

#[cfg(target_os = "windows")]
const FILE: &str = "atelico.dll";
#[cfg(target_os = "macos")]
const FILE: &str = "libatelico.dylib";
#[cfg(not(any(target_os = "windows", target_os = "macos")))]
const FILE: &str = "libatelico.so";

/// The folder that `atelico bundle` fills. The add-on's manifest names it, too.
const RUNTIME_FOLDER: &str = "atelico-runtime";

type Engine = *mut c_void;

/// The functions of a loaded libatelico.
pub struct Library {
    pub version: unsafe extern "C" fn() -> *const c_char,
    pub create: unsafe extern "C" fn(*const c_char) -> Engine,
    pub destroy: unsafe extern "C" fn(Engine),
    pub load_model: unsafe extern "C" fn(Engine, *const c_char) -> i32,
    pub model_state: unsafe extern "C" fn(Engine, *const c_char, *mut c_float) -> i32,
    pub chat_begin: unsafe extern "C" fn(Engine, *const c_char) -> i64,
    pub chat_poll: unsafe extern "C" fn(Engine, i64, *mut c_char, i32) -> i32,
    pub chat_cancel: unsafe extern "C" fn(Engine, i64) -> i32,
    pub last_error: unsafe extern "C" fn(*mut c_char, i32) -> i32,
}

static LOADED: Mutex<Option<&'static Library>> = Mutex::new(None);

/// The library, loaded on the first call. It stays in memory: it cannot be unloaded once its interpreter runs.
///
/// Errors: where it was looked for, or what the system says about the file. The next call tries again.
pub fn get() -> Result<&'static Library, String> {
    let mut loaded = LOADED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(library) = *loaded {
        return Ok(library);
    }
    let candidates = candidates();
    let Some(path) = candidates.iter().find(|path| path.is_file()) else {
        let looked: Vec<_> = candidates.iter().map(|path| path.display().to_string()).collect();
        return Err(format!(
            "{FILE} was not found. Make it with `atelico bundle --for godot --out FOLDER`, where FOLDER is one of those \
             looked in, or name its folder in the project setting {}. Looked for {}.",
            settings::LIBRARY_FOLDER,
            looked.join(", ")
        ));
    };
    let library = load(path).map_err(|error| format!("{} cannot be loaded: {error}.", path.display()))?;
    *loaded = Some(Box::leak(Box::new(library)));
    Ok(loaded.expect("just stored"))
}

/// The setting's folder; else the runtime's folder inside the add-on, or, in an exported game, beside the program, where
/// the export copies it.
fn candidates() -> Vec<PathBuf> {
    let set = settings::text(settings::LIBRARY_FOLDER);
    if !set.is_empty() {
        let path = PathBuf::from(paths::globalize(&set));
        return vec![if path.is_file() { path } else { path.join(FILE) }];
    }
    let addon = format!("res://addons/atelico/bin/{}", platform());
    paths::in_project(&addon)
        .into_iter()
        .chain(paths::program_folder())
        .flat_map(|folder| [folder.join(RUNTIME_FOLDER), folder])
        .map(|folder| folder.join(FILE))
        .collect()
}

/// As the folders of the add-on are named.
fn platform() -> String {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("macos", _) => "macos".into(),
        (os, "aarch64") => format!("{os}.arm64"),
        (os, arch) => format!("{os}.{arch}"),
    }
}

fn load(path: &Path) -> Result<Library, String> {
    // Running its initialisers is what loading a library is for.
    let file = unsafe { open(path) }.map_err(|error| error.to_string())?;
    let library = unsafe { functions(&file) }.map_err(|error| error.to_string())?;
    std::mem::forget(file); // never unloaded, see get()
    Ok(library)
}

#[cfg(not(windows))]
unsafe fn open(path: &Path) -> Result<libloading::Library, libloading::Error> {
    unsafe { libloading::Library::new(path) }
}

#[cfg(windows)]
unsafe fn open(path: &Path) -> Result<libloading::Library, libloading::Error> {
    use libloading::os::windows::{LOAD_WITH_ALTERED_SEARCH_PATH, Library};
    // The libraries it links lie beside it, not beside the game's program.
    unsafe { Library::load_with_flags(path, LOAD_WITH_ALTERED_SEARCH_PATH) }.map(Into::into)
}

unsafe fn functions(file: &libloading::Library) -> Result<Library, Box<dyn std::error::Error>> {
    unsafe {
        let version = *file.get::<unsafe extern "C" fn() -> i32>(b"atelico_abi_version\0")?;
        if version() != ABI_VERSION {
            return Err(format!(
                "it has interface {}, this extension needs {ABI_VERSION}. Take both from the same release",
                version()
            )
            .into());
        }
        Ok(Library {
            version: *file.get(b"atelico_version\0")?,
            create: *file.get(b"atelico_create\0")?,
            destroy: *file.get(b"atelico_destroy\0")?,
            load_model: *file.get(b"atelico_load_model\0")?,
            model_state: *file.get(b"atelico_model_state\0")?,
            chat_begin: *file.get(b"atelico_chat_begin\0")?,
            chat_poll: *file.get(b"atelico_chat_poll\0")?,
            chat_cancel: *file.get(b"atelico_chat_cancel\0")?,
            last_error: *file.get(b"atelico_last_error\0")?,
        })
    }
}
