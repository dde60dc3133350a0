// Stand-ins for the few types and macros of Unreal that the plugin uses, written from Unreal's public documentation so
// that the sources compile and their logic runs in tests. Nothing here is Unreal, and passing here is not passing there.
#pragma once

#include <cassert>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

using int32 = std::int32_t;
using int64 = std::int64_t;
using uint8 = std::uint8_t;
using TCHAR = char16_t; // as on Windows, so that surrogate pairs are met

#define TEXT(text) u##text
// Macros of Unreal that the wrapper must not trip over.
#define check(expression) assert(expression)
#define verify(expression) assert(expression)
#define ensure(expression) (expression)
#define PI 3.1415926f

// UBT defines NAME_API for every module; a module called "Atelico" would collide with the macro of atelico.h.
#define ATELICORUNTIME_API

#define STANDIN_JOIN_(a, b, c) a##b##c
#define STANDIN_JOIN(a, b, c) STANDIN_JOIN_(a, b, c)
// As Unreal's header tool does it: the .generated.h of a file defines what its body on this line expands to.
#define GENERATED_BODY() STANDIN_JOIN(CURRENT_FILE_ID, _, __LINE__)
#define UCLASS(...)
#define USTRUCT(...)
#define UENUM(...)
#define UPROPERTY(...)
#define UFUNCTION(...)

#define DEFINE_LOG_CATEGORY_STATIC(name, level, limit) struct name {}
#define UE_LOG(category, verbosity, format, ...) standin_log(format, __VA_ARGS__)
inline int standin_logged = 0;
template <typename... T> void standin_log(const TCHAR *, T &&...) { standin_logged++; }

// --- text ---------------------------------------------------------------------------------------------------------

class FStringView {
  public:
    FStringView(const TCHAR *text, int32 length) : view(text, static_cast<std::size_t>(length)) {}
    std::u16string_view view;
};

class FString {
  public:
    FString() = default;
    FString(const TCHAR *text) : text_(text) {}
    explicit FString(FStringView text) : text_(text.view) {}
    const TCHAR *operator*() const { return text_.c_str(); }
    int32 Len() const { return static_cast<int32>(text_.size()); }
    bool IsEmpty() const { return text_.empty(); }
    void Reset() { text_.clear(); }
    FString &operator+=(const FString &other) {
        text_ += other.text_;
        return *this;
    }
    bool operator==(const FString &other) const { return text_ == other.text_; }
    bool operator<(const FString &other) const { return text_ < other.text_; }

  private:
    std::u16string text_;
};

class FName {
  public:
    explicit FName(const TCHAR *name) : text(name) {}
    std::u16string text;
};

class FTCHARToUTF8 {
  public:
    FTCHARToUTF8(const TCHAR *text, int32 length) {
        for (int32 i = 0; i < length; i++) {
            std::uint32_t c = text[i];
            if (c >= 0xD800 && c < 0xDC00 && i + 1 < length)
                c = 0x10000 + ((c - 0xD800) << 10) + (static_cast<std::uint32_t>(text[++i]) - 0xDC00);
            const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
            const int lead[] = {0, 0xC0, 0xE0, 0xF0};
            bytes_ += static_cast<char>(lead[more] | static_cast<int>(c >> (6 * more)));
            for (int n = more - 1; n >= 0; n--) bytes_ += static_cast<char>(0x80 | ((c >> (6 * n)) & 0x3F));
        }
    }
    const char *Get() const { return bytes_.c_str(); }
    int32 Length() const { return static_cast<int32>(bytes_.size()); }

  private:
    std::string bytes_;
};

class FUTF8ToTCHAR {
  public:
    FUTF8ToTCHAR(const char *text, int32 length) {
        for (int32 i = 0; i < length;) {
            const auto byte = static_cast<unsigned char>(text[i++]);
            int more = byte < 0x80 ? 0 : byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
            std::uint32_t c = more == 0 ? byte : byte & (0x3Fu >> more);
            for (; more > 0 && i < length; more--) c = (c << 6) | (static_cast<unsigned char>(text[i++]) & 0x3F);
            if (c < 0x10000) {
                units_ += static_cast<TCHAR>(c);
            } else {
                units_ += static_cast<TCHAR>(0xD800 + ((c - 0x10000) >> 10));
                units_ += static_cast<TCHAR>(0xDC00 + ((c - 0x10000) & 0x3FF));
            }
        }
    }
    const TCHAR *Get() const { return units_.c_str(); }
    int32 Length() const { return static_cast<int32>(units_.size()); }

  private:
    std::u16string units_;
};

// --- containers and functions -------------------------------------------------------------------------------------

template <typename T> class TArray {
  public:
    void Add(const T &value) { items_.push_back(value); }
    void Append(const TArray &other) { items_.insert(items_.end(), other.items_.begin(), other.items_.end()); }
    void RemoveAt(int32 index, int32 count) { items_.erase(items_.begin() + index, items_.begin() + index + count); }
    void Reset() { items_.clear(); }
    int32 Num() const { return static_cast<int32>(items_.size()); }
    T &operator[](int32 i) { return items_[static_cast<std::size_t>(i)]; }
    const T &operator[](int32 i) const { return items_[static_cast<std::size_t>(i)]; }
    T &Last() { return items_.back(); }
    auto begin() const { return items_.begin(); }
    auto end() const { return items_.end(); }

  private:
    std::vector<T> items_;
};

template <typename K, typename V> struct TPair {
    K Key;
    V Value;
};

template <typename K, typename V> class TMap {
  public:
    void Add(const K &key, const V &value) {
        if (V *found = Find(key))
            *found = value;
        else
            pairs_.push_back({key, value});
    }
    V *Find(const K &key) {
        for (auto &pair : pairs_)
            if (pair.Key == key) return &pair.Value;
        return nullptr;
    }
    void Remove(const K &key) {
        for (std::size_t i = 0; i < pairs_.size(); i++)
            if (pairs_[i].Key == key) pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(i--));
    }
    void GetKeys(TArray<K> &keys) const {
        for (const auto &pair : pairs_) keys.Add(pair.Key);
    }
    int32 Num() const { return static_cast<int32>(pairs_.size()); }
    auto begin() const { return pairs_.begin(); }
    auto end() const { return pairs_.end(); }

  private:
    std::vector<TPair<K, V>> pairs_;
};

template <typename Signature> using TFunction = std::function<Signature>;

template <typename T> class TSharedPtr {
  public:
    TSharedPtr() = default;
    TSharedPtr(std::shared_ptr<T> pointer) : pointer_(std::move(pointer)) {}
    T *operator->() const { return pointer_.get(); }
    T &operator*() const { return *pointer_; }
    explicit operator bool() const { return pointer_ != nullptr; }
    bool operator!=(const TSharedPtr &other) const { return pointer_ != other.pointer_; }
    void Reset() { pointer_.reset(); }

  private:
    std::shared_ptr<T> pointer_;
};
template <typename T> TSharedPtr<T> MakeShared() { return std::make_shared<T>(); }

// --- objects ------------------------------------------------------------------------------------------------------

// Unreal collects objects by itself; here a test says when one goes.
class UObject {
  public:
    virtual ~UObject() { *alive_ = false; }
    std::shared_ptr<bool> standin_alive() const { return alive_; }
    class UWorld *GetWorld() const { return standin_world; }
    class UWorld *standin_world = nullptr;

  private:
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

template <typename T> class TWeakObjectPtr {
  public:
    TWeakObjectPtr() = default;
    TWeakObjectPtr(T *object) : object_(object) {
        if (object != nullptr) alive_ = object->standin_alive();
    }
    bool IsValid() const { return alive_ != nullptr && *alive_; }
    T *Get() const { return IsValid() ? object_ : nullptr; }

  private:
    T *object_ = nullptr;
    std::shared_ptr<bool> alive_;
};

template <typename T> T *NewObject() { return new T(); }
template <typename T> T *GetMutableDefault() {
    static T object;
    return &object;
}
template <typename T> const T *GetDefault() { return GetMutableDefault<T>(); }

// --- delegates ----------------------------------------------------------------------------------------------------

// A dynamic delegate takes objects and functions by name; here any function.
template <typename... Args> class TStandinDelegate {
  public:
    void standin_add(std::function<void(Args...)> function) { functions_.push_back(std::move(function)); }
    void Broadcast(Args... args) const {
        for (const auto &function : std::vector(functions_)) function(args...);
    }

  private:
    std::vector<std::function<void(Args...)>> functions_;
};
#define DECLARE_DYNAMIC_MULTICAST_DELEGATE_OneParam(name, type1, name1) using name = TStandinDelegate<type1>
#define DECLARE_DYNAMIC_MULTICAST_DELEGATE_TwoParams(name, type1, name1, type2, name2) \
    using name = TStandinDelegate<type1, type2>
#define DECLARE_DYNAMIC_MULTICAST_DELEGATE_ThreeParams(name, type1, name1, type2, name2, type3, name3) \
    using name = TStandinDelegate<type1, type2, type3>
