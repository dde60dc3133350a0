//! Godot's paths (res://, user://, relative) as paths of the file system, which is all llama.cpp can open.

use std::path::{Path, PathBuf};

use godot::classes::{FileAccess, Os, ProjectSettings};
use godot::prelude::*;

use crate::failure::{Code, Failure};

const LOCAL: &str = "in-memory::";

/// A path of any kind as an absolute or at least real path.
pub fn globalize(path: &str) -> String {
    ProjectSettings::singleton().globalize_path(path).to_string()
}

/// Where a res:// path lies while the project runs from its folder; nothing in an exported game.
pub fn in_project(path: &str) -> Option<PathBuf> {
    Os::singleton().has_feature("editor").then(|| PathBuf::from(globalize(path)))
}

/// The folder of the running program, which an export fills with the game's libraries; nothing in the editor, whose
/// program is Godot itself.
pub fn program_folder() -> Option<PathBuf> {
    if Os::singleton().has_feature("editor") {
        return None;
    }
    let program = Os::singleton().get_executable_path().to_string();
    Path::new(&program).parent().map(Path::to_path_buf)
}

/// The places a folder of the settings may be at.
pub fn folder(path: &str) -> Option<String> {
    match path.strip_prefix("res://") {
        Some(inside) => beside(inside).map(|path| path.display().to_string()),
        None => Some(globalize(path)),
    }
}

/// Where something of the project lies on disk: in the project's folder, or beside the exported program.
fn beside(inside: &str) -> Option<PathBuf> {
    in_project(&format!("res://{inside}")).or_else(|| program_folder().map(|folder| folder.join(inside)))
}

/// A model as a request names it, with Godot's paths made real. Names and absolute paths stay as they are.
///
/// Errors: a res:// or user:// path without a file, or with one that only exists inside the game's .pck.
pub fn resolve_model(model: &str) -> Result<String, Failure> {
    let (scheme, name) = match model.strip_prefix(LOCAL) {
        Some(name) => (LOCAL, name),
        None => ("", model),
    };
    let is_relative = name.ends_with(".gguf") && !name.contains("://") && !Path::new(name).is_absolute();
    let resolved = if let Some(inside) = name.strip_prefix("res://") {
        require(name, inside, beside(inside))?
    } else if name.starts_with("user://") {
        require(name, name, Some(PathBuf::from(globalize(name))))?
    } else if is_relative {
        match beside(name) {
            Some(path) if path.is_file() => path.display().to_string(),
            _ if is_packed(&format!("res://{name}")) => return Err(packed(name, name)),
            _ => name.to_owned(), // relative to the working directory, or a file of a model folder
        }
    } else {
        name.to_owned()
    };
    Ok(format!("{scheme}{resolved}"))
}

fn require(name: &str, inside: &str, path: Option<PathBuf>) -> Result<String, Failure> {
    match path {
        Some(path) if path.is_file() => Ok(path.display().to_string()),
        _ if is_packed(name) => Err(packed(name, inside)),
        path => {
            let place = path.map_or_else(|| name.to_owned(), |path| path.display().to_string());
            Err(not_found(format!("There is no model {name}: no file {place}. Put it there or correct the path.")))
        }
    }
}

fn is_packed(path: &str) -> bool {
    !Os::singleton().has_feature("editor") && FileAccess::file_exists(path)
}

fn packed(name: &str, inside: &str) -> Failure {
    let place = program_folder().unwrap_or_default().join(inside);
    not_found(format!(
        "The model {name} is inside the game's .pck, where it cannot be read from. Exclude *.gguf in the export preset \
         and copy the file to {}: the same path then works.",
        place.display()
    ))
}

fn not_found(message: String) -> Failure {
    Failure::about(Code::MODEL_NOT_FOUND, message, Some("model"))
}
