#include "core/h5.h"
#include "core/h5_support.h"

namespace fathom::h5 {
namespace {

using detail::check;
using detail::Handle;
using detail::Session;

Handle text_type(const std::filesystem::path& path, const std::string& name) {
  Handle type(check(H5Tcopy(H5T_C_S1), "make a text type for", path, name), H5Tclose);
  check(H5Tset_size(type.get(), H5T_VARIABLE), "make a text type for", path, name);
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "make a text type for", path, name);
  return type;
}

/// Replaces a scalar attribute of an object.
void write_attribute(hid_t file, const std::filesystem::path& path, const std::string& object,
                     const std::string& name, hid_t type, const void* value) {
  const std::string label = object + "@" + name;
  const Handle owner(check(H5Oopen(file, object.c_str(), H5P_DEFAULT), "open", path, object),
                     H5Oclose);
  if (check(H5Aexists(owner.get(), name.c_str()), "look up attribute", path, label) > 0)
    check(H5Adelete(owner.get(), name.c_str()), "replace attribute", path, label);
  const Handle space = detail::make_space({}, path, label);
  Handle attribute(
      check(H5Acreate2(owner.get(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
            "create attribute", path, label),
      H5Aclose);
  check(H5Awrite(attribute.get(), type, value), "write attribute", path, label);
  attribute.close("close attribute", path, label);
}

struct OpenAttribute {
  Handle attribute;
  Handle type;
};

OpenAttribute open_attribute(hid_t file, const std::filesystem::path& path,
                             const std::string& object, const std::string& name) {
  const std::string label = object + "@" + name;
  Handle attribute(
      check(H5Aopen_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
            "open attribute", path, label),
      H5Aclose);
  const Handle space(check(H5Aget_space(attribute.get()), "read attribute", path, label), H5Sclose);
  require(H5Sget_simple_extent_npoints(space.get()) == 1, ErrorKind::data, "attribute '", label,
          "' in file '", path.string(), "' is not a single value");
  Handle type(check(H5Aget_type(attribute.get()), "read attribute", path, label), H5Tclose);
  return {std::move(attribute), std::move(type)};
}

void require_class(hid_t type, H5T_class_t wanted, const char* wanted_name,
                   const std::filesystem::path& path, const std::string& object,
                   const std::string& name) {
  require(H5Tget_class(type) == wanted, ErrorKind::data, "attribute '", object, "@", name,
          "' in file '", path.string(), "' is not ", wanted_name);
}

}  // namespace

void File::set_attribute(const std::string& object, const std::string& name,
                         std::string_view text) {
  require(text.find('\0') == std::string_view::npos, ErrorKind::data, "attribute '", object, "@",
          name, "' of file '", path_.string(), "': a text with a NUL byte cannot be stored");
  const Session session;
  const std::string terminated(text);
  const char* pointer = terminated.c_str();
  write_attribute(id_, path_, object, name, text_type(path_, name).get(), &pointer);
}

void File::set_attribute(const std::string& object, const std::string& name, std::int64_t value) {
  const Session session;
  write_attribute(id_, path_, object, name, H5T_STD_I64LE, &value);
}

void File::set_attribute(const std::string& object, const std::string& name, double value) {
  const Session session;
  write_attribute(id_, path_, object, name, H5T_IEEE_F64LE, &value);
}

bool File::has_attribute(const std::string& object, const std::string& name) const {
  const Session session;
  return check(H5Aexists_by_name(id_, object.c_str(), name.c_str(), H5P_DEFAULT),
               "look up attribute", path_, object + "@" + name) > 0;
}

std::string File::text_attribute(const std::string& object, const std::string& name) const {
  const Session session;
  const std::string label = object + "@" + name;
  const OpenAttribute open = open_attribute(id_, path_, object, name);
  require_class(open.type.get(), H5T_STRING, "a text", path_, object, name);
  if (check(H5Tis_variable_str(open.type.get()), "read attribute", path_, label) == 0) {
    std::string fixed(H5Tget_size(open.type.get()), '\0');
    check(H5Aread(open.attribute.get(), open.type.get(), fixed.data()), "read attribute", path_,
          label);
    return fixed.substr(0, fixed.find('\0'));
  }
  char* text = nullptr;
  check(H5Aread(open.attribute.get(), open.type.get(), &text), "read attribute", path_, label);
  std::string copy = text == nullptr ? "" : text;
  check(H5free_memory(text), "release attribute", path_, label);
  return copy;
}

std::int64_t File::int_attribute(const std::string& object, const std::string& name) const {
  const Session session;
  const OpenAttribute open = open_attribute(id_, path_, object, name);
  require_class(open.type.get(), H5T_INTEGER, "an integer", path_, object, name);
  std::int64_t value = 0;
  check(H5Aread(open.attribute.get(), H5T_NATIVE_INT64, &value), "read attribute", path_,
        object + "@" + name);
  return value;
}

double File::float_attribute(const std::string& object, const std::string& name) const {
  const Session session;
  const OpenAttribute open = open_attribute(id_, path_, object, name);
  require_class(open.type.get(), H5T_FLOAT, "a floating-point number", path_, object, name);
  double value = 0;
  check(H5Aread(open.attribute.get(), H5T_NATIVE_DOUBLE, &value), "read attribute", path_,
        object + "@" + name);
  return value;
}

}  // namespace fathom::h5
